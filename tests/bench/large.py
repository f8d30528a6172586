"""What very large changes cost those who have nothing to do with them, and what the services need for them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from client.comparison import Outcome, compare
from client.connection import Connection
from client.follower import Follower
from client.state import State
from tests.bench.audience import Audience, audience, subscription
from tests.bench.figures import Figure, Target
from tests.bench.ground import Ground
from tests.bench.pacing import paced
from tests.bench.process import Program
from tests.bench.writing import CONTENT_BYTES, TimedWriter, seed

OTHERS = 200
"""Scopes of another session, whose delays are looked at."""

RATE = 20.0
"""Commits a second in that session."""

SECONDS = 6.0
"""How long delays are taken alone, and at least beside a large change."""

ROWS = 50_000
SPREAD_ROWS, SPREAD_SESSIONS = 10_000, 1_000
PIECE_BYTES, PIECES = 4096, 243
"""Just what still fits in a frame."""

COMPARED = 3
"""Followers of each large change that are compared with the source."""

PATIENCE_SECONDS = 240.0

BOUNDS: Mapping[str, int] = {"revision": 192, "reader": 192, "gateway": 192}
"""MiB by which a service may grow meanwhile. The revision service keeps at most 64 MiB of rows of one transaction, a
reader 8 MiB of each page in hand, a gateway 68 MiB to resume from; each of these twice over while it is encoded.
"""

_REVISION = "SELECT revision FROM conversation_session_revisions WHERE session_id = $1"

_ONE_SESSION = """
INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content, created_at, updated_at)
SELECT 'bulk-' || m, 'bulk-1', 'bench', 'agent', repeat('y', 200), clock_timestamp(), clock_timestamp()
  FROM generate_series(1, $1::int) m
"""

_MANY_SESSIONS = """
INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content, created_at, updated_at)
SELECT 'spread-row-' || m, 'spread-' || (m % $2::int + 1), 'bench', 'agent', repeat('y', 200),
       clock_timestamp(), clock_timestamp()
  FROM generate_series(1, $1::int) m
"""

_APPEND = """
UPDATE task_session_messages SET content = content || repeat('z', $2), updated_at = clock_timestamp() WHERE id = $1
"""


@dataclass(frozen=True, slots=True)
class Case:
    """`change` is made while the sessions are followed. `flawless`: nobody has to read again for it."""

    name: str
    sessions: Sequence[str]
    change: Callable[[], Awaitable[object]]
    flawless: bool


async def measure(ground: Ground) -> Sequence[Figure]:
    """Each large change in turn, beside a session that is followed all the time."""
    for prefix, sessions in (("others", 1), ("bulk", 1), ("spread", SPREAD_SESSIONS), ("growing", 1)):
        await seed(ground.pool, prefix, sessions, 1)
    await ground.serve()
    writer = TimedWriter(ground.pool, ["others-1-1"], CONTENT_BYTES)
    lines = [subscription(scope, "others-1", {}) for scope in range(OTHERS)]
    figures: list[Figure] = []
    async with audience(ground, ground.port, OTHERS, lines) as others:
        await paced(RATE, SECONDS, writer.commit)
        for case in _cases(ground):
            figures += await _beside(ground, case, others, writer)
        flaws = (await others.heard()).flaws
    return (*figures, Figure("frames to repair of the other session", flaws, "", target=Target("at most", 0)))


def _cases(ground: Ground) -> Sequence[Case]:
    async def grow() -> None:
        for _ in range(PIECES):
            await ground.pool.execute(_APPEND, "growing-1-1", PIECE_BYTES)

    spread = [f"spread-{number}" for number in range(1, SPREAD_SESSIONS + 1)]
    return (
        Case(f"{ROWS:,} rows in one transaction", ["bulk-1"], lambda: _insert(ground, _ONE_SESSION, ROWS), False),
        Case(
            f"{SPREAD_ROWS:,} rows of {SPREAD_SESSIONS:,} sessions in one transaction",
            spread,
            lambda: _insert(ground, _MANY_SESSIONS, SPREAD_ROWS, SPREAD_SESSIONS),
            True,
        ),
        Case(f"a message that grows to {PIECES * PIECE_BYTES / 1e6:.0f} MB", ["growing-1"], grow, True),
    )


async def _insert(ground: Ground, statement: str, *arguments: int) -> None:
    await ground.pool.execute(statement, *arguments, timeout=PATIENCE_SECONDS)


async def _beside(ground: Ground, case: Case, others: Audience, writer: TimedWriter) -> Sequence[Figure]:
    async def written(until: asyncio.Event) -> None:
        await paced(RATE, SECONDS, writer.commit)
        while not until.is_set():
            await paced(RATE, 1, writer.commit)

    followers = [subscription(number, session, {}) for number, session in enumerate(case.sessions)]
    async with (
        audience(ground, ground.port, len(followers), followers) as crowd,
        _followed(ground, case.sessions[:COMPARED]) as compared,
    ):
        await others.delays(restart=True)
        await paced(RATE, SECONDS, writer.commit)
        await others.heard_to_the_end()
        alone = await others.delays(restart=True)
        before, flaws = {name: _peak(program) for name, program in ground.services.items()}, (await crowd.heard()).flaws
        done = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(written(done))
            await case.change()
            await compared.reached(ground)
            done.set()
        await others.heard_to_the_end()
        beside = await others.delays(restart=True)
        grown = {name: program.peak_bytes() - before[name] for name, program in ground.services.items()}
        equal = await compared.equal()
        found = (await crowd.heard_to_the_end()).flaws - flaws
    most = Target("at most", 1.2)
    return (
        Figure(f"delay of others, p50, beside {case.name}", beside.median, "ms", alone.median, "alone", most),
        Figure("- p99", beside.tail, "ms", alone.tail, "alone", most),
        Figure(
            "- followers that equal the source", equal, "", target=Target("at least", len(case.sessions[:COMPARED]))
        ),
        *([Figure("- frames to repair", found, "", target=Target("at most", 0))] if case.flawless else []),
        *(
            Figure(
                f"- memory of the {name} service for it",
                max(0, grown[name]) / (1 << 20),
                "MiB",
                target=Target("at most", BOUNDS[name]),
            )
            for name in ground.services
        ),
    )


def _peak(program: Program) -> int:
    """What a program occupies now, from which its peak counts again."""
    program.forget_peak()
    return program.resident_bytes()


class Compared:
    """Followers of some sessions, as any client follows, whose rows are compared with the source in the end."""

    def __init__(self, connection: Connection, followers: Sequence[Follower]) -> None:
        self._connection = connection
        self._followers = followers

    async def reached(self, ground: Ground) -> None:
        """Waits until all are live at what is committed now."""
        for follower in self._followers:
            revision = await ground.pool.fetchval(_REVISION, follower.state.scope.session_id)
            async with asyncio.timeout(PATIENCE_SECONDS):
                await follower.wait_until(_at(revision))

    async def equal(self) -> int:
        """How many show what the source has, once they have loaded every page."""
        found = 0
        for follower in self._followers:
            while await follower.load_more():
                pass
            compared = await compare(self._connection, follower, PATIENCE_SECONDS)
            found += compared.outcome is Outcome.EQUAL
        return found


def _at(revision: int) -> Callable[[State], bool]:
    return lambda state: state.live and (state.applied or 0) >= revision


@asynccontextmanager
async def _followed(ground: Ground, sessions: Sequence[str]) -> AsyncIterator[Compared]:
    async with AsyncExitStack() as stack:
        connection = await stack.enter_async_context(Connection(ground.url))
        followers = [await stack.enter_async_context(Follower(connection, session)) for session in sessions]
        for follower in followers:
            await follower.wait_until(lambda state: state.live)
        yield Compared(connection, followers)
