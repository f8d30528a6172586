"""Followers of every kind behind the network, and what the source holds, read from PostgreSQL without any service."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import asyncpg
import orjson

from client.comparison import GONE
from client.connection import Connection
from client.follower import Follower
from client.range import Filter, Loaded, Row, RowChange, row_of
from client.source import Difference, difference
from client.state import Counters, State
from shared.contracts.wire import CoreMessage, CoreTurn
from shared.times import format_time
from tests.convergence.network import Network
from tests.convergence.statements import BROKEN, BROKEN_TOO, Place

LONGEST_WAIT = 60.0
"""Seconds after which a scope counts as one that never arrives: several times what the protocol allows."""

LOOKS_APART = 0.05
SAMPLES_APART = 0.01

POSITION = """
SELECT e.epoch, s.id IS NOT NULL AS there, coalesce(r.revision, 0) AS revision
  FROM conversation.epoch e LEFT JOIN task_sessions s ON s.id = $1
  LEFT JOIN conversation_session_revisions r ON r.session_id = s.id
"""
# A truncated table is empty in older snapshots too: the tables are locked before the snapshot is taken.
LOCK = """
LOCK TABLE conversation.epoch, task_sessions, conversation_session_revisions, task_session_messages, task_session_turns
  IN ACCESS SHARE MODE
"""
MESSAGES = "SELECT * FROM task_session_messages WHERE task_session_id = $1"
TURNS = "SELECT * FROM task_session_turns WHERE task_session_id = $1"


@dataclass(frozen=True, slots=True)
class Truth:
    """A session as one snapshot shows it; `rows` None: there is none."""

    epoch: str
    revision: int
    rows: tuple[Row, ...] | None


async def read_truth(pool: asyncpg.Pool, session: str) -> Truth:
    """Reads one session, all of it, in one snapshot."""
    async with pool.acquire() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
        await connection.execute(LOCK)
        position = await connection.fetchrow(POSITION, session)
        messages = await connection.fetch(MESSAGES, session)
        turns = await connection.fetch(TURNS, session)
    rows = tuple(map(_message, messages)) + tuple(map(_turn, turns))
    return Truth(position["epoch"], position["revision"], rows if position["there"] else None)


def _message(row: Any) -> Row:  # any: asyncpg has no types
    return row_of(
        CoreMessage(
            id=row["id"],
            session_id=row["task_session_id"],
            task_id=row["task_id"],
            turn_id=row["turn_id"],
            author_type=row["author_type"],
            author_id=row["author_id"] or None,
            type=row["type"] or None,
            content=row["content"].strip(),  # no writer here uses system blocks, so this is all that is taken away
            requests_input=row["requests_input"],
            metadata=_object(row["metadata"]),
            created_at=format_time(row["created_at"]),
            updated_at=format_time(row["updated_at"]),
            prompt_index=row["prompt_seq"] or None,
        )
    )


def _turn(row: Any) -> Row:  # any: asyncpg has no types
    return row_of(
        CoreTurn(
            id=row["id"],
            session_id=row["task_session_id"],
            task_id=row["task_id"],
            started_at=format_time(row["started_at"]),
            completed_at=None if row["completed_at"] is None else format_time(row["completed_at"]),
            execution_profile_id=row["execution_profile_id"],
            route_generation=row["route_generation"],
            metadata=_object(row["metadata"]),
            created_at=format_time(row["created_at"]),
            updated_at=format_time(row["updated_at"]),
        )
    )


def _object(text: str) -> dict[str, Any] | None:
    found = orjson.loads(text) if text else None
    return found if isinstance(found, dict) and found else None


def _in_short(found: Difference) -> str:
    missing, extra = ([f"{row.entity} {row.id}" for row in rows] for rows in (found.missing, found.extra))
    differing = [f"{field.id} {field.field}: {field.expected:.40}, not {field.shown:.40}" for field in found.differing]
    return f"missing {missing[:9]}, not there {extra[:9]}, differing {differing[:9]}"


@dataclass(slots=True)
class Watched:
    """A follower and what was seen of it. `applied`: highest revision that it showed, by epoch. `shown`: what it showed
    last at each epoch and revision of this round.
    """

    session: str
    kind: str
    follower: Follower = field(init=False)
    wrong: list[str] = field(default_factory=list)
    applied: dict[str, int] = field(default_factory=dict)
    shown: dict[tuple[str, int], Loaded] = field(default_factory=dict)

    def see(self, state: State, _: tuple[RowChange, ...]) -> None:
        """Notes a revision that goes back within an epoch."""
        held = state.held
        if held is None:
            return
        before = self.applied.get(held.epoch, -1)
        if held.revision < before:
            self.wrong.append(f"{self.session}, {self.kind}: revision {held.revision} after {before} of {held.epoch}")
        self.applied[held.epoch] = max(before, held.revision)
        self.shown[held.epoch, held.revision] = held

    def compare_with(self, sample: Truth) -> None:
        """Notes how what it showed at the sample's revision, if it ever stood there, differed from the source."""
        held = self.shown.get((sample.epoch, sample.revision))
        if held is None or sample.rows is None:
            return
        low, admits = held.messages.low, self.follower.state.scope.filter.admits
        loaded = [row for row in sample.rows if row.entity == "turn" or low is None or row.key >= low]
        found = difference([row for row in loaded if admits(row.body)], held.rows())
        if found:
            self.wrong.append(f"{self.session}, {self.kind}: was at {held.revision}: {_in_short(found)}")

    def differs_from(self, truth: Truth) -> str:
        """What is not (yet) right about it; empty when it shows what it must."""
        state, held = self.follower.state, self.follower.state.held
        if truth.rows is None:
            return "" if state.closed in GONE else f"{state.status}, not closed"
        if held is None or not state.live or held.has_more:
            return f"{state.status}, {None if held is None else (held.revision, held.has_more)}"
        if (held.epoch, held.revision) != (truth.epoch, truth.revision):
            return f"at {(held.epoch, held.revision)}, the source at {(truth.epoch, truth.revision)}"
        wanted = [row for row in truth.rows if state.scope.filter.admits(row.body)]
        found = difference(wanted, held.rows())
        return f"at {held.revision}: {_in_short(found)}" if found else ""


class Followers:
    """Every session of a place, followed with every kind of filter, over two connections."""

    def __init__(self, network: Network, pool: asyncpg.Pool, place: Place) -> None:
        self._network = network
        self._pool = pool
        self._place = place
        self._connections: list[Connection] = []
        self._ending = AsyncExitStack()
        self._samples: list[tuple[str, Truth]] = []
        self.watched: list[Watched] = []
        self.left: list[Watched] = []
        """Those that closed and were replaced."""

    async def __aenter__(self) -> Self:
        for _ in range(2):
            self._connections.append(await self._ending.enter_async_context(Connection(self._network.url)))
        filters = {
            "all rows": Filter(),
            "prompts": Filter(authors=("user",)),
            "one task": Filter(task_id=self._place.tasks[0]),
            "replies of a task": Filter(task_id=self._place.tasks[1], authors=("agent",)),
        }
        for session in self._place.sessions:
            for number, (kind, chosen) in enumerate(filters.items()):
                await self._follow(session, kind, chosen, number)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._ending.aclose()

    async def arrive(self) -> float:
        """Waits until every scope shows exactly what its filter selects of the source; the seconds that it took."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while differing := await self._differing():
            if loop.time() > begun + LONGEST_WAIT:
                raise AssertionError("these never equalled the source:\n" + "\n".join(differing))
            await asyncio.sleep(LOOKS_APART)
        return loop.time() - begun

    async def sample(self, until: asyncio.Event) -> None:
        """Reads the source again and again, until the writers have finished."""
        while not until.is_set():
            for session in self._place.sessions:
                with suppress(*BROKEN, *BROKEN_TOO):
                    self._samples.append((session, await read_truth(self._pool, session)))
            await asyncio.sleep(SAMPLES_APART)

    def compare_samples(self) -> None:
        """Compares every sample with what followers showed at its revision, and forgets both."""
        for session, sample in self._samples:
            for watched in (*self.watched, *self.left):
                if watched.session == session:
                    watched.compare_with(sample)
        self._samples.clear()
        for watched in (*self.watched, *self.left):
            watched.shown.clear()

    def wrong(self) -> list[str]:
        """What must not have happened meanwhile, whatever did."""
        return [each for watched in (*self.watched, *self.left) for each in watched.wrong]

    def totals(self) -> Counter[str]:
        """Counters of all followers together."""
        totals: Counter[str] = Counter()
        for watched in (*self.watched, *self.left):
            for name in ("frames", "coverage", "duplicates", "gaps", "resets", "repairs"):
                totals[name] += getattr(watched.follower.counters, name)
        return totals

    def counters(self) -> dict[int, Counters]:
        """Counters of each follower, by its place."""
        return {id(watched): watched.follower.counters for watched in self.watched}

    def repaired_without_need(self, before: Mapping[int, Counters]) -> list[str]:
        """What followers repaired since then although no frame had told them to, and nothing was lost on the way."""
        found = []
        for watched in self.watched:
            was, now = before[id(watched)], watched.follower.counters
            resets, repairs = now.resets - was.resets, now.repairs - was.repairs
            if now.gaps > was.gaps or repairs > resets or (now.duplicates > was.duplicates and not resets):
                found.append(f"{watched.session}, {watched.kind}: undisturbed, and from {was} to {now}")
        return found

    @property
    def longest_behind(self) -> float:
        """Longest time for which a follower knew that it was behind."""
        return max(watched.follower.longest_behind for watched in (*self.watched, *self.left))

    async def _differing(self) -> list[str]:
        try:
            truths = {session: await read_truth(self._pool, session) for session in self._place.sessions}
        except (*BROKEN, *BROKEN_TOO) as error:
            return [f"the source cannot be read: {error!r}"]
        found = []
        for watched in tuple(self.watched):
            truth = truths[watched.session]
            if watched.follower.state.closed is not None and truth.rows is not None:
                await self._replace(watched)
                found.append(f"{watched.session}, {watched.kind}: closed")
            elif differs := watched.differs_from(truth):
                found.append(f"{watched.session}, {watched.kind}: {differs}")
        return found

    async def _replace(self, watched: Watched) -> None:
        """A scope that was told the end of its session is right about it, and is opened anew for the next one."""
        reason = watched.follower.state.closed
        if not (self._place.endangered and reason in GONE):
            watched.wrong.append(f"{watched.session}, {watched.kind}: closed ({reason}) though the session is there")
        self.watched.remove(watched)
        self.left.append(watched)
        number = len(self.left)
        await self._follow(watched.session, watched.kind, watched.follower.state.scope.filter, number)

    async def _follow(self, session: str, kind: str, scope_filter: Filter, number: int) -> None:
        connection = self._connections[number % 2]
        limit = 100 if number % 3 else 7
        watched = Watched(session, kind)
        watched.follower = Follower(
            connection, session, scope_filter=scope_filter, limit=limit, everything=True, observer=watched.see
        )
        self.watched.append(watched)
        await self._ending.enter_async_context(watched.follower)
