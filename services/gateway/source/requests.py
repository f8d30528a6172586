"""Asks readers and the write boundary, and waits for their answers."""

import asyncio
import logging
import time
from collections.abc import Mapping, MutableSequence
from typing import TypeVar

from faststream.redis import RedisBroker
from pydantic import TypeAdapter

from services.gateway.source.positions import KnownPositions
from services.gateway.source.room import Room
from shared.broker.connection import BROKER_ERRORS
from shared.broker.replies import ReplyInbox, deadline_ms, read_answer
from shared.contracts import streams
from shared.contracts.commands import Command, CommandRequest, CommandResult
from shared.contracts.errors import RequestFailed
from shared.contracts.identity import Identity
from shared.contracts.reads import (
    HostMessages,
    HostMessagesAnswer,
    ListAnswer,
    MemberList,
    MessagesAnswer,
    MessagesPage,
    Read,
    ReadRequest,
    RevisionAnswer,
    RevisionCheck,
    SearchAnswer,
    SessionList,
    SessionSearch,
    TaskList,
    TurnsAnswer,
    TurnsPage,
    WorkspaceList,
)

logger = logging.getLogger(__name__)

KEEP_REQUESTS = 10_000
"""Most requests kept in a stream (approximately). More than that waiting are past their deadlines anyway."""

COMMAND_BYTES = 64 << 20
"""Most bytes of commands that one gateway has under way at a time, or one command that is larger: others wait for room.
As each is in its stream once, and removed when it is done or given up, this is what a gateway fills of Redis's memory.
"""

GIVE_UP_SECONDS = 1.0
"""How long the removal of a command that nobody answered may take."""

BEHIND_PAUSE = 0.05
"""Pause before a read is asked again that found its reader behind. The reader has waited on its side already."""

GATEWAY = Identity(user="", unscoped=True, credential="gateway")
"""The gateway's own identity, for revisions of sessions whose scopes were authorised one by one."""

_MESSAGES = TypeAdapter(MessagesAnswer)
_TURNS = TypeAdapter(TurnsAnswer)
_REVISIONS = TypeAdapter(RevisionAnswer)
_SEARCH = TypeAdapter(SearchAnswer)
_LIST = TypeAdapter(ListAnswer)
_HOST_MESSAGES = TypeAdapter(HostMessagesAnswer)
_RESULT = TypeAdapter(CommandResult)

_AnswerT = TypeVar(
    "_AnswerT",
    MessagesAnswer,
    TurnsAnswer,
    RevisionAnswer,
    SearchAnswer,
    ListAnswer,
    HostMessagesAnswer,
    CommandResult,
)


class Source:
    """Reads and writes of one gateway process. Every method raises RequestFailed."""

    def __init__(
        self, broker: RedisBroker, inbox: ReplyInbox, positions: KnownPositions, request_timeout: float
    ) -> None:
        self._broker = broker
        self._inbox = inbox
        self._positions = positions
        self._timeout = request_timeout
        self._room = Room(COMMAND_BYTES)

    @property
    def timeout(self) -> float:
        """Seconds until a read or command that nobody answered fails."""
        return self._timeout

    async def messages(self, page: MessagesPage) -> MessagesAnswer:
        """A page of messages, at least as new as anything this gateway knows of the session (G2)."""
        page = page.model_copy(update={"least": self._positions.least(page.session_id)})
        answer = await self._read(page, _MESSAGES)
        self._positions.note(page.session_id, answer.epoch, answer.revision)
        return answer

    async def turns(self, page: TurnsPage) -> TurnsAnswer:
        """A page of turns, like `messages`."""
        page = page.model_copy(update={"least": self._positions.least(page.session_id)})
        answer = await self._read(page, _TURNS)
        self._positions.note(page.session_id, answer.epoch, answer.revision)
        return answer

    async def revision(self, identity: Identity, session_id: str, *, authoritative: bool = False) -> RevisionAnswer:
        """The current revision of one session as this identity may see it, at least as new as what is known here."""
        least = self._positions.least(session_id)
        check = RevisionCheck(
            identity=identity,
            sessions=(session_id,),
            epoch=least.epoch if least else None,
            least={session_id: least.revision} if least else {},
            authoritative=authoritative,
        )
        return await self._read(check, _REVISIONS)

    async def check(
        self, sessions: tuple[str, ...], readers: Mapping[str, tuple[str, ...]] | None = None
    ) -> RevisionAnswer:
        """Current revisions from the primary, whatever is known here: the only read that can show that history broke
        (G4). `readers`: users by session; the answer names those who may not read it any more.
        """
        check = RevisionCheck(
            identity=GATEWAY, sessions=sessions, readers={} if readers is None else dict(readers), authoritative=True
        )
        return await self._read(check, _REVISIONS)

    async def search(self, search: SessionSearch) -> SearchAnswer:
        """The messages of a session that hold a text, at least as new as anything this gateway knows of it (G2)."""
        search = search.model_copy(update={"least": self._positions.least(search.session_id)})
        return await self._read(search, _SEARCH)

    async def list(self, request: WorkspaceList | TaskList | SessionList | MemberList) -> ListAnswer:
        """A first-party list."""
        return await self._read(request, _LIST)

    async def host_messages(self, page: HostMessages, seconds: float) -> HostMessagesAnswer:
        """A page of messages of all conversations, within this time."""
        return await self._read(page, _HOST_MESSAGES, seconds)

    async def command(self, identity: Identity, command: Command) -> CommandResult:
        """Has the write boundary carry out a command; returns after its commit."""
        deadline = time.monotonic() + self._timeout
        unanswered: list[bytes] = []

        async def send(request_id: str) -> None:
            await self._remove(unanswered)
            request = CommandRequest(
                request_id=request_id,
                reply_to=self._inbox.name,
                deadline=deadline_ms(deadline - time.monotonic()),
                identity=identity,
                command=command,
            )
            unanswered.append(await self._broker.publish(request, stream=streams.COMMANDS, maxlen=KEEP_REQUESTS))

        async with self._room.taken(len(command.model_dump_json().encode()), deadline):
            try:
                answer = await self._inbox.ask(send, deadline)
                # Whoever answered removes it.
                unanswered.clear()
            finally:
                await self._give_up(unanswered)
        result = read_answer(_RESULT, answer)
        if result.session_id:
            self._positions.note(result.session_id, result.epoch, result.revision)
        return result

    async def _give_up(self, entries: MutableSequence[bytes]) -> None:
        """Removes commands that nobody answered: if none has taken them, none will before their deadline."""
        try:
            async with asyncio.timeout(GIVE_UP_SECONDS):
                await self._remove(entries)
        except BROKER_ERRORS as error:
            logger.debug("a command that was given up stays in its stream (%s)", type(error).__name__)

    async def _remove(self, entries: MutableSequence[bytes]) -> None:
        if entries:
            await (await self._broker.connect()).xdel(streams.COMMANDS, *entries)
            entries.clear()

    async def _read(self, read: Read, answer: TypeAdapter[_AnswerT], seconds: float | None = None) -> _AnswerT:
        deadline = time.monotonic() + (self._timeout if seconds is None else seconds)

        async def send(request_id: str) -> None:
            request = ReadRequest(
                request_id=request_id,
                reply_to=self._inbox.name,
                deadline=deadline_ms(deadline - time.monotonic()),
                read=read,
            )
            await self._broker.publish(request, stream=streams.READS, maxlen=KEEP_REQUESTS)

        while True:
            try:
                return read_answer(answer, await self._inbox.ask(send, deadline))
            except RequestFailed as failed:
                if failed.failure.code != "behind" or time.monotonic() + BEHIND_PAUSE > deadline:
                    raise
            await asyncio.sleep(BEHIND_PAUSE)
