"""Earlier receipts, from a real Redis."""

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest
from pydantic import SecretStr
from redis.asyncio import Redis

from deploy.local.redis import RedisServer
from services.gateway.receipts import recalling as recalling_module
from services.gateway.receipts.recalling import Recalling
from shared.broker import receipts as receipts_module
from shared.broker.connection import connect
from shared.broker.cursor import id_after
from shared.broker.receipts import Outgoing, ReceiptWriter, earlier_receipts
from shared.contracts.streams import partition_of, receipts
from tests.support.line import Line

PARTITIONS = 1


@pytest.fixture
async def recalling(own_redis: Redis) -> AsyncIterator[Recalling]:
    recalling = Recalling(own_redis, PARTITIONS, pause=0.0)
    yield recalling
    await recalling.close()


async def write(own_redis: Redis, *payloads: tuple[str, bytes]) -> None:
    writer = ReceiptWriter(own_redis, PARTITIONS)
    await writer.begin_term(1, "e")
    await writer.publish([Outgoing(session_id, "change", payload) for session_id, payload in payloads])


async def looks(own_redis: Redis) -> int:
    """How often anything was read from a stream's past."""
    found = (await own_redis.info("commandstats")).get("cmdstat_xrange", {"calls": 0})
    return int(found["calls"])


async def test_a_session_is_told_apart_from_its_neighbours_over_several_reads(
    own_redis: Redis, recalling: Recalling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receipts_module, "READ_COUNT", 3)
    await write(own_redis, *((f"s{number % 2}", b"%d" % number) for number in range(20)))
    assert list(await recalling.receipts_of("s1")) == [b"%d" % number for number in range(1, 20, 2)]
    assert list(await recalling.receipts_of("nobody")) == []


async def test_what_is_older_than_a_minute_is_left_alone(own_redis: Redis, recalling: Recalling) -> None:
    for place, milliseconds in enumerate((1_000, 1_999, 2_000, 62_000)):
        await own_redis.xadd(receipts(0), {"s": "s", "k": "change", "r": b"%d" % place}, id=f"{milliseconds}-1")
    assert list(await recalling.receipts_of("s")) == [b"2", b"3"]


async def test_all_who_ask_at_once_share_one_read_and_who_comes_later_the_next(
    own_redis: Redis, recalling: Recalling
) -> None:
    await write(own_redis, *((f"s{number}", b"early") for number in range(50)))
    before = await looks(own_redis)
    first = await asyncio.gather(*(recalling.receipts_of(f"s{number}") for number in range(50)))
    assert [list(found) for found in first] == [[b"early"]] * 50
    assert await looks(own_redis) == before + 1
    await write(own_redis, ("s1", b"late"))
    assert list(await recalling.receipts_of("s1")) == [b"early", b"late"]
    assert await looks(own_redis) == before + 2


async def test_who_gives_up_leaves_the_read_to_the_others(own_redis: Redis, recalling: Recalling) -> None:
    await write(own_redis, ("s", b"told"))
    impatient, patient = (asyncio.create_task(recalling.receipts_of("s")) for _ in range(2))
    await asyncio.sleep(0)
    impatient.cancel()
    assert list(await patient) == [b"told"]


async def test_of_each_session_the_latest_that_may_be_remembered(
    own_redis: Redis, recalling: Recalling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recalling_module, "SESSION_BYTES", 5)
    monkeypatch.setattr(receipts_module, "READ_COUNT", 3)
    await write(own_redis, *((f"s{number % 3 > 0}", b"%02d" % number) for number in range(12)), ("s", b"too large"))
    found = await asyncio.gather(*(recalling.receipts_of(name) for name in ("sFalse", "sTrue", "s")))
    assert [list(each) for each in found] == [[b"06", b"09"], [b"10", b"11"], []]


async def test_without_redis_there_is_nothing(redis_server: RedisServer, recalling: Recalling) -> None:
    await asyncio.to_thread(redis_server.kill)
    assert list(await recalling.receipts_of("s")) == []


def _through(line: Line, url: str) -> Redis:
    """A client whose connections go through a line."""
    own, there = urlsplit(url), urlsplit(line.url)
    credentials = own.netloc.rpartition("@")[0]
    return connect(SecretStr(urlunsplit(own._replace(netloc=f"{credentials}@{there.netloc}"))))


@pytest.mark.parametrize("lost", ["the connection", "an answer"])
async def test_a_read_that_breaks_off_tells_nothing_and_holds_up_nobody(
    own_redis: Redis, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """Of half a read it could not be said what is missing."""
    monkeypatch.setattr(receipts_module, "READ_COUNT", 3)
    writer = ReceiptWriter(own_redis, 2)
    names = [next(f"s{number}" for number in count() if partition_of(f"s{number}", 2) == each) for each in range(2)]
    await writer.publish([Outgoing(name, "change", b"%d" % number) for number in range(7) for name in names])
    async with Line.to(redis_server.url) as line, _through(line, redis_server.url) as client:
        broken = asyncio.Event()

        def id_after_the_first_page(entry_id: bytes) -> bytes:
            if not broken.is_set():
                broken.set()
                breaks = line.cut if lost == "the connection" else line.hold
                breaks()
            return id_after(entry_id)

        monkeypatch.setattr(receipts_module, "id_after", id_after_the_first_page)
        monkeypatch.setitem(client.connection_pool.connection_kwargs, "socket_timeout", 0.5)
        recalling = Recalling(client, 2, pause=0.0)
        first = asyncio.create_task(recalling.receipts_of(names[0]))
        await broken.wait()
        second = asyncio.create_task(recalling.receipts_of(names[1]))
        assert list(await first) == []
        line.mend()
        await second
        for name in names:
            assert list(await recalling.receipts_of(name)) == [b"%d" % number for number in range(7)]
        await recalling.close()


async def test_partitions_are_read_one_after_the_other(own_redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, most = 0, 0

    async def noting(*arguments: Any) -> Any:
        nonlocal reading, most
        reading += 1
        most = max(most, reading)
        try:
            return await earlier_receipts(*arguments)
        finally:
            reading -= 1

    monkeypatch.setattr(recalling_module, "earlier_receipts", noting)
    recalling = Recalling(own_redis, 8, pause=0.0)
    names = [f"s{number}" for number in range(64)]
    writer = ReceiptWriter(own_redis, 8)
    await writer.publish([Outgoing(name, "change", name.encode()) for name in names])
    found = await asyncio.gather(*map(recalling.receipts_of, names))
    assert [list(each) for each in found] == [[name.encode()] for name in names]
    assert most == 1
    await recalling.close()


async def test_whoever_asks_at_the_end_is_let_go(own_redis: Redis) -> None:
    """Also where the read has not so much as begun."""
    recalling = Recalling(own_redis, PARTITIONS)
    waiting = asyncio.create_task(recalling.receipts_of("s"))
    await asyncio.sleep(0)
    await recalling.close()
    assert list(await asyncio.wait_for(waiting, 10)) == []


async def test_whoever_waits_at_the_end_is_let_go(own_redis: Redis) -> None:
    recalling = Recalling(own_redis, PARTITIONS, pause=3600.0)
    await write(own_redis, ("s", b"told"))
    assert list(await recalling.receipts_of("s")) == [b"told"]
    waiting = asyncio.create_task(recalling.receipts_of("s"))
    await asyncio.sleep(0)
    await recalling.close()
    assert list(await waiting) == []
