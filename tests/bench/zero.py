"""The peer Rocicorp Zero: zero-cache on a database of its own, and followers that are each a client of it."""

import asyncio
import os
import secrets
from bisect import bisect_left
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from urllib.parse import urlsplit, urlunsplit

import aiohttp
import asyncpg

from tests.bench import native
from tests.bench.ground import WRITERS, Ground
from tests.bench.native import NodePrograms, Unavailable
from tests.bench.pacing import paced
from tests.bench.process import AnsweringProgram, Program
from tests.bench.writing import CONTENT_BYTES, Writer
from tests.support.waiting import eventually

DATABASE = "zero"

OPENING_SECONDS = 240.0
"""How long all followers may take to come in sync."""

CATCH_UP_SECONDS = 300.0
"""How long the followers may take to show all that was committed: they may be far behind, and are waited for."""

_TABLE = """
CREATE TABLE task_session_messages (
    id text PRIMARY KEY, task_session_id text NOT NULL, content text NOT NULL, updated_at timestamptz NOT NULL);
CREATE INDEX ON task_session_messages (task_session_id);
"""

_FILL = """
INSERT INTO task_session_messages
SELECT format('zero-%s-1', s), format('zero-%s', s), repeat('x', $2), now() FROM generate_series(1, $1::int) s
"""

_IS_FREE = "SELECT NOT EXISTS (SELECT FROM pg_replication_slots WHERE database = $1 AND active)"

Sighting = tuple[int, int]
"""A commit's number, and a moment of the monotonic clock in nanoseconds."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What followers showed of what was committed.

    `moments` are nanoseconds of the monotonic clock, for every commit and follower: when it was committed, and when
    the follower showed it or a later one of the same message. `own` counts those that were shown themselves.
    """

    moments: Sequence[tuple[int, int]]
    own: int


def shown(committed: Mapping[int, int], seen: Sequence[Sighting]) -> Shown:
    """What one follower showed of the commits to its message, from the moments at which it showed a number (pure).

    Raises ValueError when it has not shown the last commit, or a later one.
    """
    first: dict[int, int] = {}
    for number, at in seen:
        first.setdefault(number, at)
    # Numbers grow with time, so that a larger one that was shown contains this one.
    numbers = sorted(first)
    if committed and (not numbers or numbers[-1] < max(committed)):
        raise ValueError("a follower has not shown the last commit")
    moments = [(since, first[numbers[bisect_left(numbers, number)]]) for number, since in committed.items()]
    return Shown(moments, len(first.keys() & committed.keys()))


class Followers(AnsweringProgram):
    """Clients of zero-cache, in one process (`peers/zero/followers.js`)."""

    async def seen(self) -> Sequence[Sequence[Sighting]]:
        """By follower, what it showed since it was asked last."""
        answer = await self.ask()
        return [[(number, int(at)) for number, at in each] for each in answer["seen"]]


@dataclass(frozen=True, slots=True)
class Following:
    """Followers of sessions with one message each, and who writes these messages."""

    clients: Followers
    pool: asyncpg.Pool
    sessions: int

    async def show(self, rate: float, seconds: float) -> Shown:
        """Commits so many a second for so long, to the sessions in turn; every follower has shown all afterwards.

        Raises Unavailable when they never do.
        """
        writers = [Writer(self.pool, [f"zero-{number}-1"]) for number in range(1, self.sessions + 1)]

        async def commit(place: int) -> None:
            await writers[place % self.sessions].commit(0)

        await paced(rate, seconds, commit)
        seen: list[list[Sighting]] = []

        async def are_done() -> bool:
            new = await self.clients.seen()
            seen.extend([] for _ in range(len(new) - len(seen)))
            for all_of_it, more in zip(seen, new, strict=True):
                all_of_it.extend(more)
            return all(
                max((number for number, _ in each), default=0)
                >= max(writers[follower % self.sessions].committed, default=0)
                for follower, each in enumerate(seen)
            )

        try:
            await eventually(are_done, patience=CATCH_UP_SECONDS)
        except AssertionError as error:
            raise Unavailable(f"the peer Rocicorp Zero was behind {CATCH_UP_SECONDS:g} s after the writing.") from error
        each = [shown(writers[follower % self.sessions].committed, one) for follower, one in enumerate(seen)]
        return Shown([moment for one in each for moment in one.moments], sum(one.own for one in each))


@dataclass(frozen=True, slots=True)
class Cache:
    """A running zero-cache, and how its followers are started."""

    programs: NodePrograms
    pool: asyncpg.Pool
    port: int
    query_port: int

    @asynccontextmanager
    async def followed(self, sessions: int, each: int) -> AsyncIterator[Following]:
        """So many followers of each of the first sessions, once they are in sync. Raises Unavailable when they end, or
        do not come so far.
        """
        command = (
            self.programs.node,
            str(self.programs.folder / "followers.js"),
            f"http://127.0.0.1:{self.port}",
            str(self.query_port),
            str(sessions * each),
            str(sessions),
        )
        async with Followers(*command) as clients:
            try:
                async with asyncio.timeout(OPENING_SECONDS):
                    await clients.seen()
            except (TimeoutError, RuntimeError) as error:
                raise Unavailable("followers of the peer Rocicorp Zero do not come in sync.") from error
            yield Following(clients, self.pool, sessions)


_runs = count()


@asynccontextmanager
async def cache(ground: Ground, sessions: int) -> AsyncIterator[Cache]:
    """zero-cache, once it answers, on a table with one message for each session `zero-1` and so on.

    Raises Unavailable where it cannot be installed, or does not start.
    """
    programs = await native.zero()
    url = urlunsplit(urlsplit(ground.bare)._replace(path=f"/{DATABASE}"))
    port, streamer_port, query_port = (ground.ports.private() for _ in range(3))
    environment = {
        "ZERO_UPSTREAM_DB": url,
        "ZERO_REPLICA_FILE": str(ground.folder / f"zero-{next(_runs)}.db"),
        "ZERO_PORT": str(port),
        "ZERO_CHANGE_STREAMER_PORT": str(streamer_port),
        "ZERO_QUERY_URL": f"http://127.0.0.1:{query_port}/",
        "ZERO_ADMIN_PASSWORD": secrets.token_urlsafe(),
        "ZERO_LOG_LEVEL": "error",
        "ZERO_ENABLE_TELEMETRY": "false",
        "DO_NOT_TRACK": "1",
        "NODE_ENV": "production",
        "NODE_OPTIONS": f"{os.environ.get('NODE_OPTIONS', '')} --import={(programs.folder / 'tied.js').as_uri()}",
    }
    command = str(programs.folder / "node_modules/@rocicorp/zero/out/zero/src/cli.js")
    async with (
        _database(ground, url, sessions) as pool,
        Program(programs.node, command, environment=environment) as program,
    ):
        await _started(ground, program, port)
        yield Cache(programs, pool, port, query_port)


@asynccontextmanager
async def _database(ground: Ground, url: str, sessions: int) -> AsyncIterator[asyncpg.Pool]:
    """The database with its table. Afterwards it is dropped, and the slot with it, which would keep WAL back."""
    await ground.bare_pool.execute(f"CREATE DATABASE {DATABASE}")
    try:
        async with asyncpg.create_pool(url, min_size=WRITERS, max_size=WRITERS) as pool:
            await pool.execute(_TABLE)
            await pool.execute(_FILL, sessions, CONTENT_BYTES)
            yield pool
    finally:
        await eventually(lambda: ground.bare_pool.fetchval(_IS_FREE, DATABASE))
        await ground.bare_pool.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")


async def _started(ground: Ground, program: Program, port: int) -> None:
    async def answers_or_ended() -> bool:
        return program.process.returncode is not None or await _answers(ground, port)

    try:
        await eventually(answers_or_ended)
    except AssertionError as error:
        raise Unavailable("the peer Rocicorp Zero does not answer.") from error
    if program.process.returncode is not None:
        raise Unavailable("the peer Rocicorp Zero ended instead of starting; it says why above.")


async def _answers(ground: Ground, port: int) -> bool:
    try:
        async with ground.http.get(f"http://127.0.0.1:{port}/") as answer:
            return answer.status == 200
    except aiohttp.ClientConnectionError:
        return False
