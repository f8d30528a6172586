"""Packed commands are those that the library would send, and an error among them spoils nothing."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr
from redis.asyncio import Connection, Redis
from redis.exceptions import ResponseError

from shared.broker.connection import connect
from shared.broker.packed import packed, send

LIBRARY = Connection(protocol=2)


@given(st.lists(st.binary(max_size=50), min_size=1, max_size=6))
def test_a_packed_command_is_the_librarys(arguments: list[bytes]) -> None:
    assert packed(*arguments) == b"".join(LIBRARY.pack_command(b"XADD", *arguments)).replace(
        b"*%d\r\n$4\r\nXADD\r\n" % (len(arguments) + 1), b"*%d\r\n" % len(arguments), 1
    )


@pytest_asyncio.fixture
async def redis(redis_url: str) -> AsyncIterator[Redis]:
    client = connect(SecretStr(redis_url))
    await client.flushdb()
    yield client
    await client.aclose()


async def test_replies_come_in_order(redis: Redis) -> None:
    commands = [packed(b"RPUSH", b"list", b"%d" % number) for number in range(100)]
    assert await send(redis, commands) == list(range(1, 101))
    assert await send(redis, []) == []


async def test_what_stands_behind_an_error_is_done_and_the_connection_stays_usable(redis: Redis) -> None:
    commands = [packed(b"SET", b"a", b"1"), packed(b"LPUSH", b"a", b"x"), packed(b"SET", b"b", b"2")]
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        await send(redis, commands)
    assert await send(redis, [packed(b"GET", b"a"), packed(b"GET", b"b")]) == [b"1", b"2"]
