"""Appends to messages: those of one message that arrive within a short window become one update and one revision.

A message's row is rewritten by every update, so that a message written in n appends one by one costs n times half its
size. The first append after a quiet moment is written at once; the later ones wait for the update under way and for the
rest of its window, and go together.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import asyncpg

from services.revision.commands.joining import Fate, Joined, Piece, join
from services.revision.commands.session import open_session, sees_session, unseen
from services.revision.commands.transaction import DeadlinePassed, Transactions
from services.revision.commands.values import refuse_nul
from shared.contracts.commands import MAX_CONTENT_CHARACTERS, AppendMessage, CommandResult
from shared.contracts.errors import RequestFailed
from shared.contracts.identity import Identity

WINDOW_SECONDS = 0.05
"""Least time between the starts of two updates of one message."""

AHEAD_SECONDS = 0.25
"""How long an append waits for the text before it, which another replica may be writing. A few windows: long enough for
a joined update there, short enough for an asker who made a mistake. The last look begins after it: what has arrived
here by then counts, however long the update before took."""

MOST_PENDING = 256
"""Most appends waiting for one message: at 50 ms a window, more than 5,000 a second. Beyond: `limit_exceeded`."""

MOST_CHARACTERS = 2 * MAX_CONTENT_CHARACTERS
"""Most characters waiting in all messages together: two of the largest appends, 32 Mi characters."""

# Primary key. The end of the content is read only when an append repeats what is there: $3 is the least offset.
# Earlier tables may have NULL for an empty content, and for an update that there has not been.
_LOCK = """
SELECT length(coalesce(content, '')) AS length, substr(coalesce(content, ''), $3 + 1) AS known
  FROM public.task_session_messages WHERE id = $1 AND task_session_id = $2 FOR NO KEY UPDATE
"""

_APPEND = """
UPDATE public.task_session_messages
   SET content = coalesce(content, '') || $2,
       updated_at = greatest(clock_timestamp(), coalesce(updated_at, created_at) + interval '1 microsecond')
 WHERE id = $1
"""


class _Ahead(Exception):
    def __init__(self, length: int) -> None:
        super().__init__()
        self.length = length


Outcome = CommandResult | RequestFailed | DeadlinePassed | _Ahead


@dataclass(slots=True, eq=False)
class _Waiting:
    identity: Identity
    piece: Piece
    deadline: float
    give_up: float
    answer: asyncio.Future[CommandResult]


@dataclass(slots=True)
class _Lane:
    """One message's appends, those being written first. `task` writes them and ends with the last."""

    waiting: deque[_Waiting] = field(default_factory=deque)
    task: asyncio.Task[None] | None = None


Key = tuple[str, str]
"""Session and message."""


class Appends:
    """Takes appends from many tasks at once and writes each message's in turn."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self._lanes: dict[Key, _Lane] = {}
        self._characters = 0

    async def append(self, identity: Identity, command: AppendMessage, deadline: float) -> CommandResult:
        """Appends, and answers with the interval of the update that holds the text. Raises RequestFailed (a `conflict`
        names the true `length`) or DeadlinePassed; `deadline` is in the event loop's seconds.
        """
        refuse_nul(command.text)
        loop = asyncio.get_running_loop()
        key = (command.session_id, command.message_id)
        self._admit(self._lanes.get(key), command)
        lane = self._lanes.setdefault(key, _Lane())
        waiting = _Waiting(
            identity,
            Piece(command.offset, command.text),
            deadline,
            loop.time() + AHEAD_SECONDS,
            loop.create_future(),
        )
        lane.waiting.append(waiting)
        if lane.task is None:
            lane.task = asyncio.create_task(self._write(key, lane))
        self._characters += len(command.text)
        try:
            async with asyncio.timeout_at(deadline):
                return await waiting.answer
        except TimeoutError:
            raise DeadlinePassed from None
        finally:
            self._characters -= len(command.text)

    async def close(self) -> None:
        """Cancels what is not written yet; its askers are told nothing and ask again."""
        tasks = [lane.task for lane in self._lanes.values() if lane.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _admit(self, lane: _Lane | None, command: AppendMessage) -> None:
        full = lane is not None and len(lane.waiting) >= MOST_PENDING
        if full or self._characters + len(command.text) > MOST_CHARACTERS:
            raise RequestFailed("limit_exceeded", "too much text waits to be appended: wait for answers, then go on")

    async def _write(self, key: Key, lane: _Lane) -> None:
        loop = asyncio.get_running_loop()
        try:
            while lane.waiting:
                began = loop.time()
                await self._write_once(key, lane, began)
                await asyncio.sleep(began + WINDOW_SECONDS - loop.time())
        finally:
            del self._lanes[key]
            for waiting in lane.waiting:
                if not waiting.answer.done():
                    waiting.answer.set_exception(DeadlinePassed())

    async def _write_once(self, key: Key, lane: _Lane, began: float) -> None:
        taken = len(lane.waiting)
        batch = [waiting for waiting in lane.waiting if not waiting.answer.done()]
        outcomes = await self._commit(key, batch) if batch else ()
        again = []
        for _ in range(taken):
            lane.waiting.popleft()
        for waiting, outcome in zip(batch, outcomes, strict=True):
            if waiting.answer.done():
                continue
            if isinstance(outcome, CommandResult):
                waiting.answer.set_result(outcome)
            elif not isinstance(outcome, _Ahead):
                waiting.answer.set_exception(outcome)
            elif began < waiting.give_up:
                again.append(waiting)
            else:
                waiting.answer.set_exception(_not_at_end(outcome.length))
        lane.waiting.extendleft(reversed(again))

    async def _commit(self, key: Key, batch: Sequence[_Waiting]) -> Sequence[Outcome]:
        async def work(connection: asyncpg.Connection) -> Sequence[Outcome]:
            return await _append(connection, key, batch)

        try:
            return await self._transactions.run(work, max(waiting.deadline for waiting in batch))
        except (RequestFailed, DeadlinePassed) as error:
            return [error] * len(batch)


async def _append(connection: asyncpg.Connection, key: Key, batch: Sequence[_Waiting]) -> Sequence[Outcome]:
    """One transaction for all of them. Each asker's access counts for its own appends only."""
    session_id, message_id = key
    seen = {
        identity: await sees_session(connection, identity, session_id)
        for identity in {waiting.identity for waiting in batch}
    }
    admitted = [waiting for waiting in batch if seen[waiting.identity]]
    if not admitted:
        return [unseen()] * len(batch)
    session = await open_session(connection, admitted[0].identity, session_id)
    pieces = [waiting.piece for waiting in admitted]
    # PostgreSQL's integer: no content is that long, and an offset beyond it is beyond the end.
    least = min(MAX_CONTENT_CHARACTERS, *(piece.offset for piece in pieces))
    row = await connection.fetchrow(_LOCK, message_id, session_id, least)
    if row is None:
        missing = RequestFailed("not_found", "there is no such message in this session")
        return [missing if seen[waiting.identity] else unseen() for waiting in batch]
    joined = join(row["length"], row["known"], pieces)
    if joined.addition:
        await connection.execute(_APPEND, message_id, joined.addition)
        written = await session.changed(connection)
        present = CommandResult(
            session_id=session_id, epoch=written.epoch, base_revision=written.revision, revision=written.revision
        )
    else:
        written = present = await session.unchanged(connection)
    fates = iter(joined.fates)
    return [
        _outcome(next(fates), joined, row["length"], written, present) if seen[waiting.identity] else unseen()
        for waiting in batch
    ]


def _outcome(fate: Fate, joined: Joined, length: int, written: CommandResult, present: CommandResult) -> Outcome:
    end = length + len(joined.addition)
    match fate:
        case Fate.WRITTEN:
            return written
        case Fate.PRESENT:
            return present
        case Fate.AHEAD:
            return _Ahead(end)
        case Fate.TOO_LONG:
            return RequestFailed(
                "invalid_query", f"a message holds at most {MAX_CONTENT_CHARACTERS} characters", length=end
            )
        case Fate.CONFLICT:
            return _not_at_end(end)


def _not_at_end(length: int) -> RequestFailed:
    return RequestFailed(
        "conflict", "the offset is not the end of the message, and other text stands there", length=length
    )
