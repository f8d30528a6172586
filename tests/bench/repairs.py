"""Very many clients that read the same page at the same moment, as after a lost connection."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from tests.bench.audience import possible
from tests.bench.figures import Figure, Target
from tests.bench.ground import Ground, settle
from tests.bench.writing import seed

CLIENTS = 2000
ROWS = 20
CONNECTING = 64
"""Connections that open at a time: fewer than a server's queue of them holds."""

PATIENCE = 20.0
"""Seconds that a client waits: several times as long as the gateway itself waits for a reader."""

UNANSWERED = 0
"""Stands for the status of an answer that did not come."""

SESSION = "storm-1"

_MESSAGES = "%task_session_messages%"
_READS = """
SELECT coalesce(sum(calls), 0) FROM pg_stat_statements
 WHERE query LIKE $1 AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


async def measure(ground: Ground) -> Sequence[Figure]:
    """Counts how often PostgreSQL ran a statement on messages for them."""
    await seed(ground.pool, SESSION.removesuffix("-1"), 1, ROWS)
    await ground.serve()
    clients = possible(CLIENTS)
    path = f"/api/v1/task-sessions/{SESSION}/messages?limit={ROWS}&sort=desc"
    async with _counted_statements(ground):
        began = time.perf_counter()
        statuses = await _get_at_once(ground.port, path, clients)
        took = time.perf_counter() - began
        reads = int(await ground.pool.fetchval(_READS, _MESSAGES))
    return (
        Figure(f"reads of the database for {clients:,} equal pages at once", reads, "", target=Target("at most", 1)),
        Figure("- until the last one is answered", 1000 * took, "ms"),
        Figure("- told to ask again later", sum(status not in {200, UNANSWERED} for status in statuses), ""),
        Figure(f"- not answered within {PATIENCE:g} s", statuses.count(UNANSWERED), "", target=Target("at most", 0)),
    )


@asynccontextmanager
async def _counted_statements(ground: Ground) -> AsyncIterator[None]:
    """Inside, PostgreSQL counts every statement, from zero."""
    pool = ground.pool
    await pool.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
    await pool.execute("ALTER SYSTEM SET pg_stat_statements.track = 'top'")
    await pool.execute("SELECT pg_reload_conf()")
    await settle()
    await pool.execute("SELECT pg_stat_statements_reset()")
    try:
        yield
    finally:
        await pool.execute("ALTER SYSTEM SET pg_stat_statements.track = 'none'")
        await pool.execute("SELECT pg_reload_conf()")


async def _get_at_once(port: int, path: str, count: int) -> Sequence[int]:
    """The status of every answer. All connections are open before the first request leaves."""
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode()
    connecting = asyncio.Semaphore(CONNECTING)

    async def connected() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with connecting:
            return await asyncio.open_connection("127.0.0.1", port)

    async def status(reader: asyncio.StreamReader) -> int:
        try:
            async with asyncio.timeout(PATIENCE):
                answer = await reader.read(-1)
        except (TimeoutError, ConnectionError):
            return UNANSWERED
        return int(answer.split(b" ", 2)[1])

    opened = await asyncio.gather(*(connected() for _ in range(count)))
    try:
        for _, writer in opened:
            writer.write(request)
        return await asyncio.gather(*(status(reader) for reader, _ in opened))
    finally:
        for _, writer in opened:
            writer.transport.abort()
