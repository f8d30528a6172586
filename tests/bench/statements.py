"""What PostgreSQL was asked while something was measured."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import asyncpg

from tests.bench.ground import WRITERS, Ground
from tests.support.waiting import eventually

MESSAGES = "%FROM %task_session_messages m%"
TURNS = "%FROM %task_session_turns m%"
LOOKS = "%barred AS MATERIALIZED%"
"""Looks at the revisions of sessions, periodic checks included."""

_CALLS = """
SELECT coalesce(sum(calls), 0) FROM pg_stat_statements
 WHERE query LIKE $1 AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


@asynccontextmanager
async def counted_statements(ground: Ground) -> AsyncIterator[None]:
    """Inside, PostgreSQL counts every statement, from zero."""
    pool = ground.pool
    await pool.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
    await pool.execute("ALTER SYSTEM SET pg_stat_statements.track = 'top'")
    await pool.execute("SELECT pg_reload_conf()")
    await eventually(lambda: _is_counting(pool))
    await pool.execute("SELECT pg_stat_statements_reset()")
    try:
        yield
    finally:
        await pool.execute("ALTER SYSTEM SET pg_stat_statements.track = 'none'")
        await pool.execute("SELECT pg_reload_conf()")


async def _is_counting(pool: asyncpg.Pool) -> bool:
    """Whether every connection of the pool has read the settings again. They are older than those of the services, and
    PostgreSQL tells the youngest first.
    """
    async with AsyncExitStack() as held:
        connections = [await held.enter_async_context(pool.acquire()) for _ in range(WRITERS)]
        return {await each.fetchval("SHOW pg_stat_statements.track") for each in connections} == {"top"}


async def calls(pool: asyncpg.Pool, pattern: str) -> int:
    """How often a statement like this was run since it is counted."""
    return int(await pool.fetchval(_CALLS, pattern))
