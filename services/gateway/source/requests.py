"""Asks readers and the write boundary, and waits for their answers."""

import asyncio
import logging
import time
from collections.abc import Mapping, MutableSequence
from typing import Annotated, TypeVar

from pydantic import Field, TypeAdapter

from services.gateway import metrics
from services.gateway.source.joining import GATEWAY, Joining
from services.gateway.source.outgoing import Outgoing
from services.gateway.source.positions import KnownPositions
from services.gateway.source.room import Room
from services.gateway.source.standings import Standings
from shared.broker.connection import BROKER_ERRORS
from shared.broker.long_texts import completed, split
from shared.broker.replies import ReplyInbox, deadline_ms, read_answer, unreadable
from shared.contracts import streams
from shared.contracts.base import DISCREET
from shared.contracts.commands import Command, CommandRequest, CommandResult
from shared.contracts.errors import RequestFailed
from shared.contracts.identity import Identity
from shared.contracts.reads import (
    HostMessages,
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
    UnchangedAnswer,
    WorkspaceList,
)
from shared.host_rpc import FIRST_BYTES

logger = logging.getLogger(__name__)

READS_AT_ONCE = 128
"""Reads that one gateway has under way at a time, checks apart: more than readers have in hand. Others wait here, where
they can still be joined, and are never sent when they are given up.
"""

COMMAND_BYTES = 64 << 20
"""Most bytes of commands that one gateway has under way at a time, or one command that is larger: others wait for room.
As each is in its stream once, and removed when it is done or given up, this is what a gateway fills of Redis's memory.
"""

GIVE_UP_SECONDS = 1.0
"""How long the removal of a command that nobody answered may take."""

BEHIND_PAUSE = 0.05
"""Pause before a read is asked again that found its reader behind. The reader has waited on its side already."""

_MESSAGES: TypeAdapter[MessagesAnswer | UnchangedAnswer] = TypeAdapter(
    Annotated[MessagesAnswer | UnchangedAnswer, Field(discriminator="kind")], config=DISCREET
)
_TURNS: TypeAdapter[TurnsAnswer | UnchangedAnswer] = TypeAdapter(
    Annotated[TurnsAnswer | UnchangedAnswer, Field(discriminator="kind")], config=DISCREET
)
_REVISIONS = TypeAdapter(RevisionAnswer)
_SEARCH = TypeAdapter(SearchAnswer)
_LIST = TypeAdapter(ListAnswer)
_RESULT = TypeAdapter(CommandResult)

_AnswerT = TypeVar("_AnswerT", SearchAnswer, ListAnswer)


class Source:
    """Reads and writes of one gateway process. Every method raises RequestFailed."""

    def __init__(
        self, outgoing: Outgoing, inbox: ReplyInbox, positions: KnownPositions, request_timeout: float
    ) -> None:
        self._outgoing = outgoing
        self._inbox = inbox
        self._positions = positions
        self._timeout = request_timeout
        self._commands = Room(COMMAND_BYTES, "limit_exceeded", "too many bytes are being written at once; ask again")
        self._reads = Room(READS_AT_ONCE, "unavailable", "too many reads are under way; ask again")
        self._messages = Joining(self._messages_page, positions.least, self._reads, request_timeout)
        self._turns = Joining(self._turns_page, positions.least, self._reads, request_timeout)
        self._standings = Standings(self._revisions, positions.least, request_timeout, authoritative=False)
        self._primary = Standings(self._revisions, positions.least, request_timeout, authoritative=True)

    async def close(self) -> None:
        """Drops what is under way."""
        await self._messages.close()
        await self._turns.close()
        await self._standings.close()
        await self._primary.close()
        await self._outgoing.close()

    @property
    def timeout(self) -> float:
        """Seconds until a read or command that nobody answered fails."""
        return self._timeout

    async def messages(self, page: MessagesPage) -> MessagesAnswer:
        """A page of messages, at least as new as anything this gateway knows of the session (G2), read together with
        others who want the same (G8).
        """
        answer = await self._messages.read(page)
        self._positions.note(page.session_id, answer.epoch, answer.revision)
        return answer

    async def turns(self, page: TurnsPage) -> TurnsAnswer:
        """A page of turns, like `messages`."""
        answer = await self._turns.read(page)
        self._positions.note(page.session_id, answer.epoch, answer.revision)
        return answer

    async def revision(self, identity: Identity, session_id: str, *, authoritative: bool = False) -> RevisionAnswer:
        """The current revision of one session as this identity may see it, at least as new as what is known here, read
        together with whatever else is asked for in this moment (G1). What a replica does not show is asked of the
        primary, apart from what it does: nobody waits for others' missing sessions.
        """
        if not authoritative:
            found = await self._standings.look(identity, session_id)
            if found.primary or session_id in found.revisions:
                return found
        return await self._primary.look(identity, session_id)

    async def check(
        self, sessions: tuple[str, ...], readers: Mapping[str, tuple[str, ...]] | None = None
    ) -> RevisionAnswer:
        """Current revisions from the primary, whatever is known here: the only read that can show that history broke
        (G4). `readers`: users by session; the answer names those who may not read it any more.
        """
        check = RevisionCheck(
            identity=GATEWAY, sessions=sessions, readers={} if readers is None else dict(readers), authoritative=True
        )
        return await self._revisions(check)

    async def search(self, search: SessionSearch) -> SearchAnswer:
        """The messages of a session that hold a text, at least as new as anything this gateway knows of it (G2)."""
        search = search.model_copy(update={"least": self._positions.least(search.session_id)})
        return await self._read_in_turn(search, _SEARCH)

    async def list(self, request: WorkspaceList | TaskList | SessionList | MemberList) -> ListAnswer:
        """A first-party list."""
        return await self._read_in_turn(request, _LIST)

    async def host_messages(self, page: HostMessages, seconds: float) -> bytes:
        """A page of messages of all conversations, as it goes out, within this time."""
        response = await self._body_in_turn(page, seconds)
        if not response.startswith(FIRST_BYTES):
            # While readers are being upgraded, one of another version may answer.
            raise unreadable(response)
        return response

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
            unanswered.append(await self._outgoing.publish(request, streams.COMMANDS))

        async with self._commands.taken(len(command.model_dump_json().encode()), deadline):
            try:
                with metrics.counted(metrics.COMMANDS, command.kind, "done"):
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
            await self._outgoing.remove(streams.COMMANDS, *entries)
            entries.clear()

    async def _revisions(self, check: RevisionCheck) -> RevisionAnswer:
        return read_answer(_REVISIONS, await self._body(check, self._timeout))

    async def _messages_page(self, page: MessagesPage, seconds: float) -> tuple[MessagesAnswer | UnchangedAnswer, int]:
        body = await self._body(page, seconds)
        document, texts = split(body)
        return completed(read_answer(_MESSAGES, document), texts), len(body)

    async def _turns_page(self, page: TurnsPage, seconds: float) -> tuple[TurnsAnswer | UnchangedAnswer, int]:
        body = await self._body(page, seconds)
        return read_answer(_TURNS, body), len(body)

    async def _read_in_turn(self, read: Read, answer: TypeAdapter[_AnswerT]) -> _AnswerT:
        return read_answer(answer, await self._body_in_turn(read, self._timeout))

    async def _body_in_turn(self, read: Read, seconds: float) -> bytes:
        """A reader's answer, asked for once few enough others are."""
        deadline = time.monotonic() + seconds
        async with self._reads.taken(1, deadline):
            return await self._body(read, deadline - time.monotonic())

    async def _body(self, read: Read, seconds: float) -> bytes:
        """A reader's answer, asked for until the deadline while readers are behind."""
        with metrics.counted(metrics.READS, read.kind, "answered"), metrics.READ_SECONDS.labels(read.kind).time():
            return await self._asked(read, seconds)

    async def _asked(self, read: Read, seconds: float) -> bytes:
        deadline = time.monotonic() + seconds

        async def send(request_id: str) -> None:
            request = ReadRequest(
                request_id=request_id,
                reply_to=self._inbox.name,
                deadline=deadline_ms(deadline - time.monotonic()),
                read=read,
            )
            await self._outgoing.publish(request, streams.READS)

        while True:
            try:
                return await self._inbox.ask(send, deadline)
            except RequestFailed as failed:
                if failed.failure.code != "behind" or time.monotonic() + BEHIND_PAUSE > deadline:
                    raise
            await asyncio.sleep(BEHIND_PAUSE)
