"""Requests as a gateway writes them: on one connection, and none that nobody waits for any more."""

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest
from pydantic import SecretStr
from redis.asyncio import Redis

from deploy.local.redis import RedisServer
from services.gateway.source.outgoing import AT_ONCE, Outgoing
from shared.broker.connection import BROKER_ERRORS, connect
from shared.contracts import streams
from shared.contracts.identity import LOCAL_USER
from shared.contracts.reads import ReadRequest, WorkspaceList
from tests.support.waiting import eventually

MANY = 10 * AT_ONCE


def request(number: int) -> ReadRequest:
    return ReadRequest(
        request_id=f"request{number}", reply_to="nobody", deadline=1, read=WorkspaceList(identity=LOCAL_USER)
    )


@pytest.fixture
async def outgoing(redis_server: RedisServer) -> AsyncIterator[Outgoing]:
    client = connect(SecretStr(redis_server.url))
    outgoing = Outgoing(client)
    yield outgoing
    await outgoing.close()
    await client.aclose()


async def entries(own_redis: Redis) -> list[tuple[bytes, dict[bytes, bytes]]]:
    """What is in the stream, in order."""
    found = await own_redis.xrange(streams.READS)
    return cast("list[tuple[bytes, dict[bytes, bytes]]]", found)  # as nothing is decoded


async def names(own_redis: Redis) -> list[str]:
    """The requests in the stream, in order."""
    return [repr(fields).split('"request_id":"')[1].split('"')[0] for _, fields in await entries(own_redis)]


async def test_a_storm_is_written_in_order_on_one_connection(outgoing: Outgoing, own_redis: Redis) -> None:
    before = len(await own_redis.client_list())
    written = await asyncio.gather(*(outgoing.publish(request(number), streams.READS) for number in range(MANY)))
    assert len(await own_redis.client_list()) <= before + 1
    assert await names(own_redis) == [f"request{number}" for number in range(MANY)]
    assert written == [entry_id for entry_id, _ in await entries(own_redis)]


async def test_what_was_given_up_before_its_turn_is_not_written(outgoing: Outgoing, own_redis: Redis) -> None:
    asks = [asyncio.create_task(outgoing.publish(request(number), streams.READS)) for number in range(10)]
    await asyncio.sleep(0)
    for ask in asks[1:]:
        ask.cancel()
    await asyncio.wait(asks)
    assert await names(own_redis) == ["request0"]


async def test_an_asker_that_gives_up_leaves_the_connection_to_the_others(outgoing: Outgoing, own_redis: Redis) -> None:
    for number in range(50):
        gone = asyncio.create_task(outgoing.publish(request(number), streams.READS))
        for _ in range(number % 7):
            await asyncio.sleep(0)
        gone.cancel()
        await asyncio.wait([gone])
        await outgoing.publish(request(1000 + number), streams.READS)
    assert [name for name in await names(own_redis) if len(name) == len("request1000")] == [
        f"request{1000 + number}" for number in range(50)
    ]


async def test_entries_are_taken_back(outgoing: Outgoing, own_redis: Redis) -> None:
    first = await outgoing.publish(request(1), streams.READS)
    await outgoing.publish(request(2), streams.READS)
    await outgoing.remove(streams.READS, first)
    assert await names(own_redis) == ["request2"]


async def test_every_asker_is_told_that_redis_is_away_and_it_works_again_afterwards(
    outgoing: Outgoing, own_redis: Redis, redis_server: RedisServer
) -> None:
    await outgoing.publish(request(1), streams.READS)
    await asyncio.to_thread(redis_server.kill)
    asks = (outgoing.publish(request(number), streams.READS) for number in range(MANY))
    failed = await asyncio.gather(*asks, return_exceptions=True)
    assert all(isinstance(each, BROKER_ERRORS) for each in failed)
    await asyncio.to_thread(redis_server.start)

    async def written() -> bool:
        try:
            await outgoing.publish(request(2), streams.READS)
        except BROKER_ERRORS:
            return False
        return True

    await eventually(written)


async def test_one_request_that_redis_refuses_fails_alone(outgoing: Outgoing, own_redis: Redis) -> None:
    await own_redis.set("no stream", "a string")
    good, bad = await asyncio.gather(
        outgoing.publish(request(1), streams.READS),
        outgoing.publish(request(2), "no stream"),
        return_exceptions=True,
    )
    assert isinstance(good, bytes)
    assert isinstance(bad, BROKER_ERRORS)


async def test_what_comes_after_the_end_is_refused_at_once(outgoing: Outgoing, own_redis: Redis) -> None:
    await outgoing.publish(request(1), streams.READS)
    await outgoing.close()
    with pytest.raises(BROKER_ERRORS):
        await outgoing.publish(request(2), streams.READS)
    assert await names(own_redis) == ["request1"]
