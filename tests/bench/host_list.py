"""Host RPC: one task's last day out of a very large table, beside the same rows on a bare connection; and a page of it
beside the hops that it takes, with nothing at them but the query.
"""

import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime

import aiohttp
import asyncpg
import grpc
from kandev_plugin_sdk import Host, MessageFilter, Page
from kandev_plugin_sdk.messages import MessageReader

from tests.bench.figures import Figure, Target, median
from tests.bench.ground import Ground
from tests.bench.process import Peer
from tests.support.plugins import manifest, package

DAYS = 20
ROWS = 1000
"""Of each task and day, however many tasks there are."""

PAGE = 200
LAST_DAY = "2026-01-20T00:00:00Z"
ROUNDS, CALLS = 16, 12
"""Each side is called so often in a row, in so many rounds; the first round, and the first two calls of each other, are
not counted.
"""

# fmt: off
SIZES = (
    0, 16, 29, 36, 49, 57, 62, 71, 75, 79, 82, 86, 94, 97, 105, 110, 117, 124, 128, 133, 140, 148, 154, 163, 177, 195,
    243, 301, 337, 385, 491, 609, 701, 995, 1367, 2291, 3576, 5620, 9763, 18115,
)
# fmt: on
"""Bytes of the texts of a recorded session of a coding agent: one from the middle of each fortieth of them."""

_WORKSPACE = "INSERT INTO workspaces (id) VALUES ('bench') ON CONFLICT DO NOTHING"
_TASKS = "INSERT INTO tasks (id, workspace_id) SELECT 'host' || n, 'bench' FROM generate_series(0, $1::integer - 1) n"
_SESSIONS = """
INSERT INTO task_sessions (id, task_id) SELECT 'host' || n, 'host' || n FROM generate_series(0, $1::integer - 1) n
"""

# In the order of their times, as they would have come: each task's rows lie scattered between those of all others.
_MESSAGES = f"""
INSERT INTO task_session_messages
    (id, task_session_id, task_id, author_type, type, content, created_at, updated_at)
SELECT 'h' || m, 'host' || m % $2::integer, 'host' || m % $2::integer, 'agent',
       CASE m % 10 WHEN 0 THEN 'message' ELSE 'tool_call' END,
       ($3::text[])[1 + (m / $2::integer + m % $2::integer * 7) % cardinality($3::text[])],
       '2026-01-01'::timestamptz + m * interval '{DAYS} days' / $1::integer, '2026-01-01'
  FROM generate_series(0, $1::integer - 1) m
"""

_QUERY = """
SELECT id, task_session_id, task_id, turn_id, author_type, content, type, created_at
  FROM task_session_messages
 WHERE task_id = $1 AND created_at >= $2
 ORDER BY created_at, id COLLATE "C" LIMIT $3
"""

List = Callable[[str], Awaitable[int]]
"""Lists a task, and says how many messages came; bytes, where nothing tells messages apart."""


async def measure(ground: Ground, messages: int) -> Sequence[Figure]:
    """The last day of one task after the other, on all sides in turn."""
    if ground.services:
        raise RuntimeError("the table is filled without its triggers: before any tracker runs")
    tasks = messages // (ROWS * DAYS)
    await _fill(ground, tasks)
    await ground.serve()
    async with (
        # First: a process that has called gRPC does not start others without its saying so.
        _hops(ground) as hops,
        _product(ground) as (page, day),
        _bare(ground.database) as (page_query, day_query),
    ):
        sides = [page, page_query, hops, day, day_query]
        taken: list[list[float]] = [[] for _ in sides]
        for number in range(ROUNDS):
            # Whoever comes later finds rows in memory: each side comes at each place.
            for place in range(len(sides)):
                side = (place + number) % len(sides)
                seconds = [await _seconds(sides[side], f"host{random.randrange(tasks)}") for _ in range(CALLS)]
                if number > 0:
                    taken[side] += seconds[2:]
    of_page, of_page_query, of_hops, of_day, of_day_query = (1000 * median(each) for each in taken)
    total = f"of {tasks * ROWS * DAYS:,} messages"
    query, bare = "the same query on a bare connection", "the hops alone, with the query between them"
    return [
        Figure(
            f"a page of {PAGE} over Host RPC {total}, p50", of_page, "ms", of_page_query, query, Target("at most", 2.0)
        ),
        Figure(f"a page of {PAGE} over Host RPC {total}, p50", of_page, "ms", of_hops, bare),
        Figure(f"{bare}: a page of {PAGE}, p50", of_hops, "ms", of_page_query, query),
        Figure(f"a task's last day, {ROWS:,} {total}, in pages, p50", of_day, "ms", of_day_query, query),
    ]


async def _seconds(listed: List, task: str) -> float:
    began = time.perf_counter()
    count = await listed(task)
    seconds = time.perf_counter() - began
    if count < PAGE:
        raise RuntimeError(f"{count} messages were listed")
    return seconds


async def _fill(ground: Ground, tasks: int) -> None:
    async with ground.pool.acquire() as connection:
        await connection.execute(_WORKSPACE)
        await connection.execute(_TASKS, tasks)
        await connection.execute(_SESSIONS, tasks)
        await connection.execute("SET session_replication_role = replica; SET synchronous_commit = off")
        await connection.execute(_MESSAGES, tasks * ROWS * DAYS, tasks, _texts(), timeout=3600)
        await connection.execute("RESET session_replication_role; RESET synchronous_commit")
        await connection.execute("VACUUM ANALYZE task_session_messages", timeout=3600)


def _texts() -> list[str]:
    """One text of each size, of words, so that they are compressed about as much as what agents write."""
    chance = random.Random(7)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 11))) for _ in range(700)]
    long = " ".join(chance.choices(words, k=SIZES[-1]))
    return [long[place : place + size] for place, size in enumerate(SIZES)]


@asynccontextmanager
async def _product(ground: Ground) -> AsyncIterator[tuple[List, List]]:
    """A page and the whole day through the SDK of plugins, with the token of one that was just installed."""
    files = {"server/plugin": b"#!"}
    runtime = {"type": "binary", "executables": dict.fromkeys(("linux-amd64", "linux-arm64"), "server/plugin")}
    form = aiohttp.FormData()
    form.add_field("package", package(manifest("bench", more={"runtime": runtime}), **files), filename="package.tar.gz")
    async with ground.http.post(f"{ground.url}/api/plugins/install", data=form) as answer:
        token = (await answer.json())["token"]
    async with Host(f"127.0.0.1:{ground.rpc_port}", token) as host:
        yield _lists(host.messages())


def _lists(reader: MessageReader) -> tuple[List, List]:
    async def page(task: str) -> int:
        messages, _ = await reader.list(MessageFilter(task_ids=(task,), since=LAST_DAY), Page(PAGE))
        return len(messages)

    async def day(task: str) -> int:
        wanted = MessageFilter(task_ids=(task,), since=LAST_DAY)
        return len([message async for message in reader.all(wanted, PAGE)])

    return page, day


@asynccontextmanager
async def _bare(database: str) -> AsyncIterator[tuple[List, List]]:
    """What a program that may read the database would do: one statement for a page, or for all rows."""
    connection = await asyncpg.connect(database)
    since = datetime.fromisoformat(LAST_DAY)

    async def page(task: str) -> int:
        return len(await connection.fetch(_QUERY, task, since, PAGE + 1))

    async def day(task: str) -> int:
        return len(await connection.fetch(_QUERY, task, since, ROWS + 1))

    try:
        yield page, day
    finally:
        await connection.close()


@asynccontextmanager
async def _hops(ground: Ground) -> AsyncIterator[List]:
    """Two processes that hand a page on as the product's do, and do nothing else."""
    redis, port = ground.redis_url.get_secret_value(), str(ground.ports.private())
    async with AsyncExitStack() as ending:
        for peer in (
            Peer("page_gateway", redis, port),
            Peer("page_reader", ground.database, redis, _QUERY, LAST_DAY, str(PAGE + 1)),
        ):
            await ending.enter_async_context(peer)
            await peer.ask()
        options = (("grpc.max_receive_message_length", 17 << 20),)
        channel = await ending.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options))
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/bench/Page")

        async def page(task: str) -> int:
            return len(await call(task.encode(), timeout=10))

        yield page
