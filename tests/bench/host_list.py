"""Host RPC: one task's last day out of a very large table, beside the same rows on a bare connection: as one query, and
page by page.
"""

import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import aiohttp
import asyncpg
from kandev_plugin_sdk import Host, MessageFilter

from tests.bench.figures import Figure, Target, median
from tests.bench.ground import Ground
from tests.support.plugins import manifest, package

DAYS = 20
ROWS = 1000
"""Of each task and day, however many tasks there are."""

PAGE = 200
LAST_DAY = "2026-01-20T00:00:00Z"
ROUNDS, WARM_UP = 90, 6

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
       CASE m % 10 WHEN 0 THEN 'message' ELSE 'tool_call' END, repeat(md5(m::text), 16),
       '2026-01-01'::timestamptz + m * interval '{DAYS} days' / $1::integer, '2026-01-01'
  FROM generate_series(0, $1::integer - 1) m
"""

_QUERY = """
SELECT id, task_session_id, task_id, turn_id, author_type, content, type, created_at
  FROM task_session_messages
 WHERE task_id = $1 AND created_at >= $2::text::timestamptz
 ORDER BY created_at, id COLLATE "C"
"""
_PAGE = """
SELECT id, task_session_id, task_id, turn_id, author_type, content, type, created_at
  FROM task_session_messages
 WHERE task_id = $1 AND created_at >= $2::text::timestamptz AND (created_at, id COLLATE "C") > ($3, $4)
 ORDER BY created_at, id COLLATE "C" LIMIT $5
"""

List = Callable[[str], Awaitable[int]]


async def measure(ground: Ground, messages: int) -> Sequence[Figure]:
    """The last day of one task after the other, on all sides in turn."""
    if ground.services:
        raise RuntimeError("the table is filled without its triggers: before any tracker runs")
    tasks = messages // (ROWS * DAYS)
    await _fill(ground, tasks)
    await ground.serve()
    async with _product(ground) as product, _bare(ground.database) as (query, pages):
        sides = [("product", product), ("query", query), ("pages", pages)]
        taken: dict[str, list[float]] = {name: [] for name, _ in sides}
        for number in range(ROUNDS + WARM_UP):
            task = f"host{random.randrange(tasks)}"
            # Whoever comes later finds the rows in memory: each side comes at each place equally often.
            for name, listed in (*sides[number % 3 :], *sides[: number % 3]):
                began = time.perf_counter()
                count = await listed(task)
                if number >= WARM_UP:
                    taken[name].append(time.perf_counter() - began)
                if count != ROWS:
                    raise RuntimeError(f"{name}: {count} messages were listed, not {ROWS}")
    figure = f"a task's last day over Host RPC, {ROWS:,} of {tasks * ROWS * DAYS:,} messages, p50"
    product_ms = 1000 * median(taken["product"])
    return [
        Figure(
            figure,
            product_ms,
            "ms",
            1000 * median(taken["query"]),
            "the same query on a bare connection",
            Target("at most", 2.0),
        ),
        Figure(figure, product_ms, "ms", 1000 * median(taken["pages"]), f"in pages of {PAGE} on a bare connection"),
    ]


async def _fill(ground: Ground, tasks: int) -> None:
    async with ground.pool.acquire() as connection:
        await connection.execute(_WORKSPACE)
        await connection.execute(_TASKS, tasks)
        await connection.execute(_SESSIONS, tasks)
        await connection.execute("SET session_replication_role = replica; SET synchronous_commit = off")
        await connection.execute(_MESSAGES, tasks * ROWS * DAYS, tasks, timeout=3600)
        await connection.execute("RESET session_replication_role; RESET synchronous_commit")
        await connection.execute("VACUUM ANALYZE task_session_messages", timeout=3600)


@asynccontextmanager
async def _product(ground: Ground) -> AsyncIterator[List]:
    """Through the SDK of plugins, with the token of one that was just installed."""
    files = {"server/plugin": b"#!"}
    runtime = {"type": "binary", "executables": dict.fromkeys(("linux-amd64", "linux-arm64"), "server/plugin")}
    form = aiohttp.FormData()
    form.add_field("package", package(manifest("bench", more={"runtime": runtime}), **files), filename="package.tar.gz")
    async with ground.http.post(f"{ground.url}/api/plugins/install", data=form) as answer:
        token = (await answer.json())["token"]
    async with Host(f"127.0.0.1:{ground.rpc_port}", token) as host:
        reader = host.messages()

        async def listed(task: str) -> int:
            wanted = MessageFilter(task_ids=(task,), since=LAST_DAY)
            return len([message async for message in reader.all(wanted, PAGE)])

        yield listed


@asynccontextmanager
async def _bare(database: str) -> AsyncIterator[tuple[List, List]]:
    """What a program that may read the database would do: one statement for all rows, or one for each page."""
    connection = await asyncpg.connect(database)
    first = await connection.fetchval("SELECT '-infinity'::timestamptz")

    async def query(task: str) -> int:
        return len(await connection.fetch(_QUERY, task, LAST_DAY))

    async def pages(task: str) -> int:
        count, time_, row_id = 0, first, ""
        while True:
            rows = await connection.fetch(_PAGE, task, LAST_DAY, time_, row_id, PAGE + 1)
            count += min(len(rows), PAGE)
            if len(rows) <= PAGE:
                return count
            time_, row_id = rows[PAGE - 1]["created_at"], rows[PAGE - 1]["id"]

    try:
        yield query, pages
    finally:
        await connection.close()
