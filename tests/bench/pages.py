"""A page over HTTP: beside the hops that it consists of, and in a long session beside a short one."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

import aiohttp
import asyncpg
import orjson
from pydantic import SecretStr

from services.reader.pages import query_of
from services.reader.pools import PLANNER
from shared.broker.connection import connect
from shared.broker.cursor import last_id
from shared.contracts.identity import LOCAL_USER
from shared.contracts.reads import MessagesPage
from tests.bench.bare_streams import read_after
from tests.bench.figures import Figure, Target, median
from tests.bench.ground import WRITERS, Ground
from tests.bench.pacing import at_once
from tests.bench.peers.streams import ANSWERS, QUESTIONS
from tests.bench.process import Peer
from tests.bench.writing import seed

ROWS = 20
ROUNDS = 3
CALLERS = (1, 16)
SHORT = 1000

Call = Callable[[], Awaitable[None]]

_FILL = """
INSERT INTO task_session_messages
    (id, task_session_id, task_id, author_type, content, created_at, updated_at, prompt_seq)
SELECT $1 || '-' || m, $1, 'bench', CASE m % 10 WHEN 0 THEN 'user' ELSE 'agent' END, repeat('x', 200),
       timestamptz '2020-01-01' + make_interval(secs => m), timestamptz '2020-01-01',
       CASE m % 10 WHEN 0 THEN m / 10 ELSE 0 END
  FROM generate_series(1, $2::int) m
"""


async def first_pages(ground: Ground, seconds: float) -> Sequence[Figure]:
    """The first page of a session, and each of its hops, in turn."""
    await seed(ground.pool, "page", 1, 2 * ROWS)
    await ground.serve()
    url = _url(ground, "page-1")
    async with ground.http.get(url) as answer:
        size = len(await answer.read())
    port = ground.ports.private()
    async with (
        Peer("streams", ground.redis_url.get_secret_value(), str(size)) as streams,
        Peer("sockets", str(port), str(size)) as server,
        _statement(ground.database) as statement,
        _round_trip(ground.redis_url) as round_trip,
    ):
        for peer in (streams, server):
            await peer.ask(rate=1, seconds=0, size=1, streams=1, each=1)
        calls: Mapping[str, Call] = {
            "page": lambda: _get(ground.http, url),
            "statement": statement,
            "round trip": round_trip,
            "GET": lambda: _get(ground.http, f"http://127.0.0.1:{port}/page"),
        }
        taken = await _in_turn(calls, seconds)
    figures = []
    for callers in CALLERS:
        hops = [1000 * median(taken[name, callers]) for name in ("statement", "round trip", "GET")]
        parts = " + ".join(f"{hop:.2f}" for hop in hops)
        figures.append(
            Figure(
                f"first page of {ROWS} rows, {callers} caller{'s' if callers > 1 else ''}, p50",
                1000 * median(taken["page", callers]),
                "ms",
                sum(hops),
                f"statement, Redis both ways, GET: {parts}",
                Target("at most", 1.5),
            )
        )
    return figures


async def long_session(ground: Ground, messages: int, seconds: float) -> Sequence[Figure]:
    """Pages of a session with very many messages and of one with a thousand, in turn."""
    sizes = {"long": messages, "short": SHORT}
    if ground.services:
        raise RuntimeError("the long session is filled without its triggers: before any tracker runs")
    await _fill(ground, sizes)
    await ground.serve()
    calls: dict[str, Call] = {}
    for name in sizes:
        first = _url(ground, name)
        async with ground.http.get(first) as answer:
            cursor = orjson.loads(await answer.read())["cursor"]
        calls[f"{name} first"] = _getting(ground.http, first)
        calls[f"{name} next"] = _getting(ground.http, f"{first}&before={cursor}")
    taken = await _in_turn(calls, seconds, callers=(1,))
    return [
        Figure(
            f"{place} page of a session with {messages:,} messages, p50",
            1000 * median(taken[f"long {place}", 1]),
            "ms",
            1000 * median(taken[f"short {place}", 1]),
            f"with {SHORT:,}",
            Target("at most", 1.2),
        )
        for place in ("first", "next")
    ]


async def _fill(ground: Ground, sizes: Mapping[str, int]) -> None:
    await seed(ground.pool, "fill", 0, 0)
    async with ground.pool.acquire() as connection, connection.transaction():
        await connection.execute("SET LOCAL synchronous_commit = off")
        for name, messages in sizes.items():
            await connection.execute("INSERT INTO task_sessions (id, task_id) VALUES ($1, 'bench')", name)
            await connection.execute("SET LOCAL session_replication_role = replica")
            await connection.execute(_FILL, name, messages, timeout=600)
            await connection.execute("SET LOCAL session_replication_role = origin")
            await connection.execute(
                "UPDATE conversation_session_revisions SET revision = revision + 1 WHERE session_id = $1", name
            )
    await ground.pool.execute("VACUUM ANALYZE task_session_messages", timeout=600)


async def _in_turn(
    calls: Mapping[str, Call], seconds: float, callers: Sequence[int] = CALLERS
) -> Mapping[tuple[str, int], list[float]]:
    """Seconds that the calls took, by name and number of callers."""
    taken: dict[tuple[str, int], list[float]] = {(name, count): [] for name in calls for count in callers}
    for call in calls.values():
        await at_once(4, 0.2, call)
    for _ in range(ROUNDS):
        for count in callers:
            if count == 1:
                await _one_after_the_other(calls, len(calls) * seconds / 2, taken)
                continue
            for name, call in calls.items():
                taken[name, count] += await at_once(count, seconds / 2, call)
    return taken


async def _one_after_the_other(
    calls: Mapping[str, Call], seconds: float, taken: Mapping[tuple[str, int], list[float]]
) -> None:
    """One call of each kind and so on, so that whatever else the machine does falls on all alike."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        for name, call in calls.items():
            began = time.perf_counter()
            await call()
            taken[name, 1].append(time.perf_counter() - began)


def _url(ground: Ground, session_id: str) -> str:
    return f"{ground.url}/api/v1/task-sessions/{session_id}/messages?limit={ROWS}&sort=desc"


def _getting(http: aiohttp.ClientSession, url: str) -> Call:
    return lambda: _get(http, url)


async def _get(http: aiohttp.ClientSession, url: str) -> None:
    async with http.get(url) as answer:
        assert answer.status == 200
        await answer.read()


@asynccontextmanager
async def _statement(database: str) -> AsyncIterator[Call]:
    """The page's statement on a pool as asyncpg makes it, planned as a reader's."""
    pool = await asyncpg.create_pool(database, min_size=WRITERS, max_size=WRITERS, server_settings=PLANNER)
    query = query_of(MessagesPage(identity=LOCAL_USER, session_id="page-1", sort="desc", limit=ROWS))

    async def call() -> None:
        found: list[asyncpg.Record] = await pool.fetch(query.statement, *query.parameters)
        assert len(found) == ROWS + 1

    try:
        yield call
    finally:
        pool.terminate()


@asynccontextmanager
async def _round_trip(url: SecretStr) -> AsyncIterator[Call]:
    """An entry to the peer and the peer's entry back; one reader for all callers."""
    asking, reading = connect(url), connect(url)
    waiting: dict[bytes, asyncio.Future[None]] = {}

    async def read() -> None:
        position = await last_id(reading, ANSWERS)
        while True:
            for _, entries in await read_after(reading, {ANSWERS: position}, 256):
                for entry_id, fields in entries:
                    position = entry_id
                    waiting.pop(fields[b"i"]).set_result(None)

    async def call() -> None:
        number = secrets.token_hex(12)
        future = waiting[number.encode()] = asyncio.get_running_loop().create_future()
        await asking.xadd(QUESTIONS, {"i": number, "q": "x" * 300}, maxlen=10_000)
        await future

    task = asyncio.create_task(read())
    try:
        yield call
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await asking.aclose()
        await reading.aclose()
