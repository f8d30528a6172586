"""Figures of what does not answer are not told, rather than the last ones."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from pydantic import SecretStr
from redis.asyncio import Redis

from deploy.local.postgres import PostgresServer
from deploy.local.redis import RedisServer
from services.revision import slots as slots_module
from services.revision.slots import Slots
from shared.broker import depth as depth_module
from shared.broker import presence as presence_module
from shared.broker.connection import BROKER_ERRORS, connect
from shared.broker.depth import Depth
from shared.broker.presence import Presence, Present, present
from shared.contracts.streams import COMMANDS
from shared.database import open_pool
from shared.version import VERSION
from tests.support.waiting import eventually

OFTEN = 0.01


@asynccontextmanager
async def running(part: Depth | Presence | Slots) -> AsyncIterator[None]:
    """Has a part look, or speak, within the block."""
    task = asyncio.create_task(part.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_the_length_of_a_stream(
    redis_server: RedisServer, own_redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(depth_module, "LOOK_SECONDS", OFTEN)
    depth = Depth(own_redis, COMMANDS)

    async def entries() -> int | None:
        return depth.entries

    async with running(depth):
        await own_redis.xadd(COMMANDS, {"a": "b"})
        await eventually(entries, lambda found: found == 1)
        redis_server.stop()
        await eventually(entries, lambda found: found is None)
        redis_server.start()
        await eventually(entries, lambda found: found == 0)


async def test_a_process_says_that_it_runs_as_soon_as_redis_answers(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence_module, "EVERY_SECONDS", OFTEN)
    client = connect(SecretStr(redis_server.url))
    reading: Redis = Redis.from_url(redis_server.url, protocol=2, decode_responses=True)

    async def found() -> tuple[Present, ...]:
        try:
            return await present(reading)
        except BROKER_ERRORS:
            return ()

    async with running(Presence(client, "reader")):
        (first,) = await eventually(found)
        redis_server.stop()
        redis_server.start()
        (again,) = await eventually(found)
    assert (first.service, first.version) == ("reader", VERSION)
    assert abs(first.clock_skew) < 60
    assert again.name == first.name
    await reading.aclose()
    await client.aclose()


async def test_slots(postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots_module, "LOOK_SECONDS", OFTEN)
    pool = await open_pool(SecretStr(postgres_server.url), 1, "test")
    slots = Slots(pool)

    async def told() -> int:
        return len(list(slots.reads()))

    async with running(slots):
        await eventually(told, lambda figures: figures == 5)
        postgres_server.kill()
        await eventually(told, lambda figures: figures == 0)
        postgres_server.start()
        await eventually(told, lambda figures: figures == 5)
    pool.terminate()
