"""Writes a planned session: prompts in order, the agent's messages several at a time, each turn before the next.

Whatever stops it leaves a beginning of the session; writing it again completes it and changes nothing else: what is
stored otherwise than the file says stays.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby

from cli.errors import CommandFailed
from cli.target import identity_refused
from cli.transcripts.completing import Standing, standing
from cli.transcripts.contents import Contents, Transcript
from cli.transcripts.plan import PlannedMessage, PlannedSession, PlannedTurn, Skipped, stable_id
from cli.workspaces import Workspace, make_workspace
from cli.writing import CONFLICT, create_in_parts, update_message
from client.writers import NewMessage, Unreachable, WriteError, WriteRefused, Writers
from shared.times import format_time

AT_A_TIME = 8
"""Agent messages under way at once: enough to hide the round trip, few enough to leave the gateway to others."""

DEFAULT_WORKSPACE = "Imported transcripts"

LISTED_SESSIONS = 500
"""Most sessions that a gateway lists."""

# Answers that concern one message and say nothing about the next one.
_OF_ONE_MESSAGE = frozenset({400, CONFLICT, 413})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Destination:
    """Where sessions go. `task` None: each session has a task of its own, named after its first prompt."""

    workspace: Workspace
    task: str | None = None

    def task_id(self, session_id: str) -> str:
        """The same for the same workspace and title, or session."""
        named = ("session", session_id) if self.task is None else ("task", self.task)
        return stable_id(self.workspace.id, *named)


@dataclass(slots=True)
class Outcome:
    """What became of one session. `created`: rows that were not there before. `updated`: messages that were completed.
    `kept`: lines of messages and of turns' prompts that are stored otherwise, and stay. `refused`: lines, with the
    reason.
    """

    session_id: str
    task_id: str
    workspace_id: str
    title: str
    messages: int
    turns: int
    created: int = 0
    updated: int = 0
    kept: list[int] = field(default_factory=list)
    refused: list[Skipped] = field(default_factory=list)


def moment(microseconds: int) -> str:
    """RFC 3339 text of microseconds since 1970."""
    return format_time(_EPOCH + timedelta(microseconds=microseconds))


def sentence(error: WriteError) -> str:
    """A failed write for the person at the terminal."""
    if isinstance(error, Unreachable):
        return (
            f"The gateway cannot be used: {error}. Start everything here with `kandev-conversation up`, "
            "or name a running gateway with --url."
        )
    if isinstance(error, WriteRefused) and error.status == 401:
        return identity_refused()
    if isinstance(error, WriteRefused):
        return f"The gateway refuses this ({error.code or error.status}): {error}."
    return str(error)


def _there_already(session_id: str) -> CommandFailed:
    return CommandFailed(
        f"The session {session_id} is there already: in another task or workspace, made otherwise, or somebody else's. "
        "Import it with the --workspace and --task of the first time, or have that session deleted first."
    )


class SessionImport:
    """One session on its way in. `on_message` is called after each message."""

    def __init__(
        self,
        writers: Writers,
        transcript: Transcript,
        session: PlannedSession,
        destination: Destination,
        on_message: Callable[[], None] = lambda: None,
    ) -> None:
        self._writers = writers
        self._transcript = transcript
        self._session = session
        self._on_message = on_message
        title = destination.task or transcript.title(session)
        self._destination = destination
        self.outcome = Outcome(
            session_id=session.session_id,
            task_id=destination.task_id(session.session_id),
            workspace_id=destination.workspace.id,
            title=title,
            messages=len(session.messages),
            turns=len(session.turns),
        )

    async def admit(self) -> None:
        """Asks, before anything is written, whether the session is there in another task, seen or unseen. Raises
        `CommandFailed`.
        """
        try:
            in_task = await self._writers.sessions(self.outcome.task_id)
            known = any(session.id == self.outcome.session_id for session in in_task)
            # A list that is full may lack it; its task is there then, and the write itself refuses what differs.
            if known or len(in_task) >= LISTED_SESSIONS or not await self._writers.is_taken(self.outcome.session_id):
                return
        except WriteError as error:
            raise CommandFailed(sentence(error)) from None
        raise _there_already(self.outcome.session_id)

    async def run(self) -> Outcome:
        """Writes everything. Raises `CommandFailed`."""
        try:
            await self._make_room()
            for number, messages in groupby(self._session.messages, key=lambda message: message.turn):
                await self._write_turn(None if number is None else self._session.turns[number], messages)
        except WriteError as error:
            raise CommandFailed(sentence(error)) from None
        return self.outcome

    async def _make_room(self) -> None:
        outcome, session = self.outcome, self._session
        await make_workspace(self._writers, self._destination.workspace)
        await self._writers.create_task(outcome.task_id, outcome.workspace_id, outcome.title)
        try:
            await self._writers.create_session(
                session.session_id,
                outcome.task_id,
                state="COMPLETED",
                started_at=moment(session.messages[0].created_at),
                metadata={"source": "transcript", **session.facts},
            )
        except WriteRefused as refused:
            if refused.status != CONFLICT:
                raise
            raise _there_already(session.session_id) from None

    async def _write_turn(self, turn: PlannedTurn | None, messages: Iterable[PlannedMessage]) -> None:
        remaining = iter(messages)
        if turn is not None:
            prompt = next(remaining)
            await self._start_turn(turn, prompt)
            await self._write_message(prompt, turn)
        failed: BaseException | None = None
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(AT_A_TIME):
                    group.create_task(self._write_messages(remaining, turn))
        except* (WriteError, CommandFailed) as errors:
            failed = errors.exceptions[0]
        # Raised out here: inside `except*`, Python before 3.11.4 puts it into a group of its own.
        if failed is not None:
            raise failed
        if turn is not None:
            await self._writers.complete_turn(self._session.session_id, turn.id, completed_at=moment(turn.completed_at))

    async def _start_turn(self, turn: PlannedTurn, prompt: PlannedMessage) -> None:
        try:
            started = await self._writers.start_turn(
                self._session.session_id, turn.id, started_at=moment(turn.started_at)
            )
        except WriteRefused as refused:
            if refused.status != CONFLICT:
                raise
            self.outcome.kept.append(prompt.line)
        else:
            self.outcome.created += started.changed

    async def _write_messages(self, remaining: Iterator[PlannedMessage], turn: PlannedTurn | None) -> None:
        for message in remaining:
            await self._write_message(message, turn)

    async def _write_message(self, planned: PlannedMessage, turn: PlannedTurn | None) -> None:
        contents = self._transcript.contents(planned)
        message = NewMessage(
            id=planned.id,
            author_type=planned.author,
            content=contents.content,
            type=planned.type,
            turn_id=None if turn is None else turn.id,
            metadata=contents.metadata,
            created_at=moment(planned.created_at),
        )
        try:
            await self._write(planned, message, contents)
        except WriteRefused as refused:
            if refused.status not in _OF_ONE_MESSAGE:
                raise
            self.outcome.refused.append(Skipped(planned.line, f"was refused by the gateway: {refused}"))
        self._on_message()

    async def _write(self, planned: PlannedMessage, message: NewMessage, contents: Contents) -> None:
        session_id = self._session.session_id
        try:
            written = await create_in_parts(self._writers, session_id, message)
        except WriteRefused as refused:
            stored = await self._writers.message(session_id, message.id) if refused.status == CONFLICT else None
            if stored is None:
                raise
        else:
            self.outcome.created += written.changed
            return
        match standing(*stored, contents):
            case Standing.SAME:
                pass
            case Standing.UNFINISHED if planned.author == "agent":
                changes = {"content": message.content, "metadata": message.metadata}
                updated = await update_message(self._writers, session_id, message.id, changes, 0)
                self.outcome.updated += updated.changed
            case Standing.UNFINISHED | Standing.OTHERWISE:
                self.outcome.kept.append(planned.line)
