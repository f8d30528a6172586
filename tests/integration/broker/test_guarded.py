"""Subscribers go on, whatever becomes of Redis and whatever stands in their streams."""

import asyncio
import io
import logging
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from faststream import AckPolicy
from faststream.redis.subscriber.usecases.stream_subscriber import StreamSubscriber
from pydantic import SecretStr
from redis.asyncio import ConnectionPool, Redis

from shared.broker.connection import BLOCK_MS, RETRY_SECONDS
from shared.broker.guarded import (
    UNREADABLE,
    Group,
    GroupGuard,
    Subscription,
    open_broker,
    readable,
    take_fetches,
    undecoded,
)
from shared.settings import Settings
from shared.telemetry import configure_logging
from tests.support.waiting import eventually

STREAM, GROUP, CONTROL = "stream", "group", "control"
FAR_AHEAD = 1 << 50

GARBAGE: dict[str, dict[bytes | str, bytes | str]] = {
    "no field of ours": {"x": "y"},
    "no text": {b"\xff": b"\xff"},
    "no text as the body": {"__data__": b"\xff\xfe"},
    "an envelope without headers": {"__data__": '{"data":"x","headers":7}'},
    "a cut envelope": {"__data__": b"\x89BIN\x0d\x0a\x1a\x0a\x00\x01\x00"},
    "headers that are no text": {
        "__data__": b"\x89BIN\x0d\x0a\x1a\x0a\x00\x01\0\0\0\x12\0\0\0\x17\0\x01\0\x01\xff\0\x00"
    },
    "nothing": {"__data__": ""},
}


@dataclass
class Subscribed:
    """One process's subscribers, and the bodies they were given."""

    guard: GroupGuard
    of_group: list[bytes] = field(default_factory=list)
    of_control: list[bytes] = field(default_factory=list)

    async def take(self, body: bytes) -> None:
        self.of_group.append(body)

    async def take_control(self, body: bytes) -> None:
        self.of_control.append(body)


@asynccontextmanager
async def subscribing(url: str, *, no_ack: bool = True) -> AsyncIterator[Subscribed]:
    broker = open_broker(SecretStr(url))
    subscribed = Subscribed(GroupGuard(broker, SecretStr(url), [Group(STREAM, GROUP)]))
    grouped = Subscription(
        STREAM, group=GROUP, consumer="one", last_id=">", no_ack=no_ack, polling_interval=BLOCK_MS, max_records=10
    )
    broker.subscriber(stream=grouped, ack_policy=AckPolicy.ACK, no_reply=True, parser=readable, decoder=undecoded)(
        subscribed.take
    )
    control = Subscription(CONTROL, polling_interval=BLOCK_MS)
    broker.subscriber(stream=control, no_reply=True, parser=readable, decoder=undecoded)(subscribed.take_control)
    running = asyncio.create_task(subscribed.guard.run())
    try:
        await until(lambda: subscribed.guard.connected)
        yield subscribed
    finally:
        running.cancel()
        await asyncio.wait([running])


async def until(met: Callable[[], bool]) -> None:
    await eventually(lambda: asyncio.sleep(0, met()))


async def arrives(redis: Redis, stream: str, received: list[bytes], body: bytes) -> None:
    """Adds one entry and waits until its subscriber has it."""
    await redis.xadd(stream, {"__data__": body})
    await until(lambda: body in received)


async def test_a_lost_connection_is_followed_by_our_own_pause(
    redis_url: str, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    sleep = anyio.sleep

    async def noted(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr(anyio, "sleep", noted)
    async with subscribing(redis_url) as subscribed:
        await arrives(redis, STREAM, subscribed.of_group, b"before")
        await arrives(redis, CONTROL, subscribed.of_control, b"before")
        await redis.client_kill_filter(_type="normal", skipme=True)
        await arrives(redis, STREAM, subscribed.of_group, b"after")
        await arrives(redis, CONTROL, subscribed.of_control, b"after")
    assert pauses, "no fetch failed"
    assert max(pauses) <= RETRY_SECONDS


async def test_connections_are_closed_when_nobody_reads_on_them_any_more(
    redis_url: str, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many turns of the event loop a reader that is cancelled needs to end."""
    reading: set[StreamSubscriber] = set()
    at_closing: list[int] = []
    read, disconnect = StreamSubscriber._get_msgs, ConnectionPool.disconnect

    async def slow_to_end(subscriber: StreamSubscriber, *arguments: Any) -> None:  # Any: the library's own
        reading.add(subscriber)
        try:
            await read(subscriber, *arguments)
        finally:
            try:
                for _ in range(100):
                    await asyncio.sleep(0)
            finally:
                reading.discard(subscriber)

    async def noting(pool: ConnectionPool) -> None:
        at_closing.append(len(reading))
        await disconnect(pool)

    monkeypatch.setattr(StreamSubscriber, "_get_msgs", slow_to_end)
    async with subscribing(redis_url) as subscribed:
        await arrives(redis, STREAM, subscribed.of_group, b"one")
        await arrives(redis, CONTROL, subscribed.of_control, b"one")
        await until(lambda: len(reading) == 2)
        monkeypatch.setattr(ConnectionPool, "disconnect", noting)
    assert at_closing != []
    assert not any(at_closing)


async def test_it_goes_on_after_a_flush(redis_url: str, redis: Redis, caplog: pytest.LogCaptureFixture) -> None:
    async with subscribing(redis_url) as subscribed:
        for number in range(3):
            await arrives(redis, STREAM, subscribed.of_group, b"%d" % number)
            await redis.flushdb()
        await arrives(redis, STREAM, subscribed.of_group, b"after")
    assert [record for record in caplog.records if record.name == "faststream"] == []
    assert len([record for record in caplog.records if "made again" in record.getMessage()]) <= 3


async def test_a_subscriber_without_a_group_follows_a_stream_that_began_anew(redis_url: str, redis: Redis) -> None:
    """G9, while the connection stays up."""
    async with subscribing(redis_url) as subscribed:
        await redis.xadd(CONTROL, {"__data__": b"far"}, id=f"{FAR_AHEAD}-0")
        await until(lambda: b"far" in subscribed.of_control)
        await redis.delete(CONTROL)

        async def heard() -> bool:
            await redis.xadd(CONTROL, {"__data__": b"after"})
            return b"after" in subscribed.of_control

        await eventually(heard)


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
async def test_an_entry_that_nobody_can_read_is_handed_over_and_left_behind(
    redis_url: str, redis: Redis, garbage: dict[bytes | str, bytes | str], caplog: pytest.LogCaptureFixture
) -> None:
    async with subscribing(redis_url, no_ack=False) as subscribed:
        for stream, received in ((STREAM, subscribed.of_group), (CONTROL, subscribed.of_control)):
            await redis.xadd(stream, garbage)  # type: ignore[arg-type] # redis-py's parameter is an invariant dict
            await arrives(redis, stream, received, b"after")
            assert len(received) == 2
        await eventually(lambda: redis.xlen(STREAM), lambda length: length == 0)
    assert caplog.records == []


async def test_what_was_delivered_is_removed(redis_url: str, redis: Redis) -> None:
    async with subscribing(redis_url) as subscribed:
        for number in range(20):
            await redis.xadd(STREAM, {"__data__": b"%d" % number + bytes(100_000)})
        await until(lambda: len(subscribed.of_group) == 20)
        await eventually(lambda: redis.xlen(STREAM), lambda length: length == 0)
        await arrives(redis, STREAM, subscribed.of_group, b"after")


async def test_what_is_pending_and_what_another_group_awaits_stays(redis_url: str, redis: Redis) -> None:
    await redis.xgroup_create(STREAM, GROUP, id="0", mkstream=True)
    ids = [await redis.xadd(STREAM, {"__data__": b"%d" % number}) for number in range(4)]
    assert await redis.xreadgroup(GROUP, "another", {STREAM: ">"}, count=3)
    await redis.xack(STREAM, GROUP, ids[0], ids[2])
    async with subscribing(redis_url) as subscribed:
        await until(lambda: subscribed.of_group == [b"3"])
        await eventually(lambda: redis.xlen(STREAM), lambda length: length == 3)
        await redis.xgroup_create(STREAM, "other", id=ids[1])
        await redis.xack(STREAM, GROUP, ids[1])
        await eventually(lambda: redis.xlen(STREAM), lambda length: length == 2)
        await redis.xgroup_destroy(STREAM, "other")
        await eventually(lambda: redis.xlen(STREAM), lambda length: length == 0)


async def test_readable_entries_beside_an_unreadable_one_are_kept(redis_url: str, redis: Redis) -> None:
    broker = open_broker(SecretStr(redis_url))
    guard = GroupGuard(broker, SecretStr(redis_url), [Group(STREAM, GROUP)])
    await redis.xgroup_create(STREAM, GROUP, id="0", mkstream=True)
    entries = (("__data__", b'"one"'), ("other", b"field"), ("__data__", b"\xff"), ("__data__", b'"two"'))
    for name, value in entries:
        await redis.xadd(STREAM, {name: value})
    received: list[bytes] = []

    async def take(found: Sequence[bytes]) -> None:
        received.extend(found)

    batch = Subscription(STREAM, group=GROUP, consumer="one", last_id=">", no_ack=True, max_records=10, batch=True)
    take_fetches(broker, batch, take)
    running = asyncio.create_task(guard.run())
    try:
        await until(lambda: bool(received))
    finally:
        running.cancel()
        await asyncio.wait([running])
    assert received == [b'"one"', UNREADABLE, b"\xff", b'"two"']


async def test_what_the_library_says_of_a_failed_entry_holds_nothing_of_it(
    redis_url: str, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It puts the error's text into its own, over several lines."""
    root, written = logging.getLogger(), io.StringIO()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(sys, "stderr", written)
    configure_logging(Settings(), "test")

    async def fail(_: Subscribed, body: bytes) -> None:
        raise ValueError(f"{body!r}\nin two lines")

    monkeypatch.setattr(Subscribed, "take", fail)
    async with subscribing(redis_url, no_ack=False) as subscribed:
        await redis.xadd(STREAM, {"__data__": b"planted-secret"})
        await eventually(lambda: redis.xlen(STREAM), lambda length: length == 0)
        await arrives(redis, CONTROL, subscribed.of_control, b"after")
    lines = [line for line in written.getvalue().splitlines() if "faststream" in line]
    assert "planted-secret" not in written.getvalue()
    assert "in two lines" not in written.getvalue()
    assert [line for line in lines if "ValueError at " in line] == lines != []
