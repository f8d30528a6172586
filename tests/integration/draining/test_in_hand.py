"""Readers and the write boundary finish what they have in hand, and leave the rest to others."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from shared.contracts.streams import COMMANDS, REVISION_GROUP
from tests.support.stack import Name, Stack
from tests.support.waiting import eventually


async def start(stack: Stack) -> None:
    """One of each, reader and revision as processes."""
    await stack.start("revision", process=True, drain_seconds=30)
    await stack.tracked()
    await stack.start("reader", process=True, drain_seconds=30)
    await stack.start("gateway")
    await stack.ready("gateway")
    await stack.session("s")
    await stack.add("s", "m", content="text")


@asynccontextmanager
async def locked(stack: Stack) -> AsyncIterator[None]:
    """Nobody else gets at the messages within the block."""
    connection: asyncpg.Connection = await asyncpg.connect(stack.database_url)
    try:
        async with connection.transaction():
            await connection.execute("LOCK TABLE task_session_messages IN ACCESS EXCLUSIVE MODE")
            yield
    finally:
        await connection.close()


async def blocked(stack: Stack) -> bool:
    """Whether a statement waits for a lock."""
    found = await stack.pool.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    return bool(found)


async def told(stack: Stack, name: Name) -> None:
    """Tells a service to stop, and waits until it says that it does."""
    stack.tell(name)
    await eventually(lambda: stack.status(name), lambda found: found[1].get("status") == "draining")


async def test_a_reader_answers_what_it_has_taken(database_url: str, redis_url: str) -> None:
    """No other reader is there to answer."""
    async with Stack(database_url, redis_url, request_timeout=60) as stack:
        await start(stack)
        async with locked(stack):
            page = asyncio.create_task(stack.call("GET", "/api/v1/task-sessions/s/messages?limit=1"))
            await eventually(lambda: blocked(stack))
            await told(stack, "reader")
        status, body = await page
        assert (status, body["total"]) == (200, 1)
        await stack.gone("reader")


async def test_a_command_under_way_is_carried_out_and_answered(database_url: str, redis_url: str) -> None:
    """And nothing of the consumer stays in the group."""
    async with Stack(database_url, redis_url, request_timeout=60) as stack:
        await start(stack)
        async with locked(stack):
            body = {"id": "new", "author_type": "user", "content": "text"}
            writing = asyncio.create_task(stack.call("POST", "/api/v1/task-sessions/s/messages", json=body))
            await eventually(lambda: blocked(stack))
            assert not writing.done()
            await told(stack, "revision")
        assert (await writing)[0] == 200
        await stack.gone("revision")
        assert await stack.redis.xinfo_consumers(COMMANDS, REVISION_GROUP) == []
        assert await stack.pool.fetchval("SELECT count(*) FROM task_session_messages WHERE id = 'new'") == 1
