"""The receipt streams on a real Redis, whatever happens to it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest
from pydantic import SecretStr
from redis.asyncio import Redis

from deploy.local.redis import RedisServer
from shared.broker.connection import connect
from shared.broker.receipts import (
    KEEP_BYTES,
    KEEP_SECONDS,
    Interruption,
    Outgoing,
    ReceiptEntry,
    ReceiptReader,
    ReceiptWriter,
)
from shared.contracts.streams import partition_of, receipts
from tests.support.waiting import eventually

PARTITIONS = 2
FAR_AHEAD = 1 << 50
"""Milliseconds of an entry's id that no clock reaches: what a Redis leaves whose clock was far ahead."""


class Received:
    """What a reader handed over."""

    def __init__(self) -> None:
        self.entries: list[ReceiptEntry] = []
        self.interruptions: list[Interruption] = []

    def take(self, batch: Sequence[ReceiptEntry] | Interruption) -> None:
        if isinstance(batch, Interruption):
            self.interruptions.append(batch)
        else:
            self.entries.extend(batch)

    async def until(self, met: Callable[["Received"], bool]) -> None:
        await eventually(lambda: asyncio.sleep(0, met(self)))

    @property
    def payloads(self) -> list[bytes]:
        return [entry.payload for entry in self.entries if entry.kind == "change"]


@asynccontextmanager
async def reading(url: str) -> AsyncIterator[Received]:
    """A reader from now on."""
    client, received = connect(SecretStr(url)), Received()
    reader = ReceiptReader(client, PARTITIONS)
    await reader.start()
    task = asyncio.create_task(reader.run(received.take))
    try:
        yield received
    finally:
        task.cancel()
        await asyncio.wait([task])
        await client.aclose()


async def restart(server: RedisServer) -> None:
    """Ends the server as a crash would; it comes back empty."""
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)


async def test_receipts_arrive_in_order_and_numbered(redis_server: RedisServer, own_redis: Redis) -> None:
    async with reading(redis_server.url) as received:
        writer = ReceiptWriter(own_redis, PARTITIONS)
        await writer.begin_term(7, "e")
        names = [f"s{number}" for number in range(20)]
        await writer.publish([Outgoing(name, "change", name.encode()) for name in names])
        await received.until(lambda found: len(found.entries) == PARTITIONS + 20)
        for partition in range(PARTITIONS):
            entries = [entry for entry in received.entries if entry.partition == partition]
            assert entries[0].kind == "resync"
            assert [(entry.term, entry.sequence) for entry in entries] == [
                (7, number) for number in range(1, len(entries) + 1)
            ]
            expected = [name for name in names if partition_of(name, PARTITIONS) == partition]
            assert [entry.session_id for entry in entries[1:]] == expected


async def test_only_what_is_written_from_now_on_is_read(redis_server: RedisServer, own_redis: Redis) -> None:
    writer = ReceiptWriter(own_redis, PARTITIONS)
    await writer.begin_term(1, "e")
    await writer.publish([Outgoing("s", "change", b"before")])
    async with reading(redis_server.url) as received:
        await writer.publish([Outgoing("s", "change", b"after")])
        await received.until(lambda found: bool(found.entries))
        assert received.payloads == [b"after"]


async def test_a_redis_that_is_behind_is_read_from_its_start(redis_server: RedisServer, own_redis: Redis) -> None:
    """G9: another server whose ids are lower. Waiting for a higher one would pass over everything."""
    for partition in range(PARTITIONS):
        await own_redis.xadd(receipts(partition), {"x": "y"}, id=f"{FAR_AHEAD}-0")
    async with reading(redis_server.url) as received:
        await restart(redis_server)
        await received.until(lambda found: len(found.interruptions) == 1)
        assert received.interruptions == [Interruption(frozenset(range(PARTITIONS)))]
        writer = ReceiptWriter(own_redis, PARTITIONS)
        await writer.begin_term(1, "e")
        await writer.publish([Outgoing("s", "change", b"after")])
        await received.until(lambda found: found.payloads == [b"after"])


async def test_every_reconnect_is_told(redis_server: RedisServer, own_redis: Redis) -> None:
    async with reading(redis_server.url) as received:
        for times in range(1, 4):
            await restart(redis_server)
            await received.until(lambda found, times=times: len(found.interruptions) >= times)  # type: ignore[misc] # bound


async def test_a_flushed_redis_is_read_on(redis_server: RedisServer, own_redis: Redis) -> None:
    writer = ReceiptWriter(own_redis, PARTITIONS)
    await writer.begin_term(1, "e")
    async with reading(redis_server.url) as received:
        for number in range(5):
            await own_redis.flushall()
            payload = b"%d" % number

            async def arrived(payload: bytes = payload) -> bool:
                # Within the millisecond of the last entry read, a new stream gives the same id once more.
                await writer.publish([Outgoing("s", "change", payload)])
                return payload in received.payloads

            await eventually(arrived)


async def test_entries_past_their_age_are_dropped(redis_server: RedisServer, own_redis: Redis) -> None:
    now = 0.0
    writer = ReceiptWriter(own_redis, 1, clock=lambda: now)
    await writer.begin_term(1, "e")
    await writer.publish([Outgoing("s", "change", b"old")])
    now = KEEP_SECONDS
    await writer.trim()
    assert await own_redis.xlen(receipts(0)) == 2
    await writer.publish([Outgoing("s", "change", b"new")])
    now = KEEP_SECONDS + 1
    await writer.trim()
    left = await own_redis.xrange(receipts(0)) or []
    assert [fields[b"r"] for _, fields in left if fields] == [b"new"]


async def test_no_more_bytes_are_kept_than_the_bound(redis_server: RedisServer, own_redis: Redis) -> None:
    writer = ReceiptWriter(own_redis, 1)
    await writer.begin_term(1, "e")
    payload = bytes(1 << 20)
    for _ in range(3 * KEEP_BYTES // len(payload)):
        await writer.publish([Outgoing("s", "change", payload)])
        assert await own_redis.xlen(receipts(0)) * len(payload) <= 2 * KEEP_BYTES + 2 * len(payload)
    await writer.trim()
    assert await own_redis.xlen(receipts(0)) * len(payload) <= KEEP_BYTES


@pytest.mark.parametrize("forget", ["flush", "delete"])
async def test_a_stream_that_begins_anew_while_the_connection_stays_up(
    redis_server: RedisServer, own_redis: Redis, forget: str
) -> None:
    """G9: nothing tells the reader but the stream's end, and the other partition never falls silent."""
    async with reading(redis_server.url) as received:
        writer = ReceiptWriter(own_redis, PARTITIONS)
        await writer.begin_term(1, "e")
        quiet, busy = "s0", next(f"s{n}" for n in range(99) if partition_of(f"s{n}", 2) != partition_of("s0", 2))
        forged = receipts(partition_of(quiet, PARTITIONS))
        await own_redis.xadd(forged, {"s": quiet, "k": "change", "t": 1, "q": 9, "r": "far"}, id=f"{FAR_AHEAD}-0")
        await received.until(lambda found: b"far" in found.payloads)
        await writer.publish([Outgoing(quiet, "change", b"above it")])
        await received.until(lambda found: b"above it" in found.payloads)
        if forget == "flush":
            await own_redis.flushall()
        else:
            await own_redis.delete(forged)

        async def heard() -> bool:
            await writer.publish([Outgoing(quiet, "change", b"after"), Outgoing(busy, "change", b"busy")])
            return b"after" in received.payloads

        await eventually(heard)
        assert Interruption(frozenset({partition_of(quiet, PARTITIONS)})) in received.interruptions


@pytest.mark.parametrize(
    "garbage",
    [{"x": "y"}, {b"s": b"\xff", "k": "k", "t": "1", "q": "1", "r": ""}, {"t": "9" * 9999}, {b"\xff": b"\xff"}],
)
async def test_an_entry_that_is_no_receipt_costs_a_line(
    redis_server: RedisServer, own_redis: Redis, garbage: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    async with reading(redis_server.url) as received:
        await own_redis.xadd(receipts(0), garbage)  # type: ignore[arg-type] # redis-py's parameter is an invariant dict
        await ReceiptWriter(own_redis, PARTITIONS).begin_term(1, "e")
        await received.until(lambda found: len(found.entries) == PARTITIONS)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
