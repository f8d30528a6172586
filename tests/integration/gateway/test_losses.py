"""Epochs, holes, and the loss of what carries the receipts (R4, T2, G9)."""

import asyncio
import itertools

import pytest

from deploy.local.redis import RedisServer
from shared.contracts import streams
from shared.contracts.receipts import ChangeReceipt
from tests.support.socket_client import SocketClient
from tests.support.stack import Stack
from tests.support.waiting import eventually

NOON = "2026-01-01T12:00:00Z"


async def next_place(stack: Stack, session_id: str) -> tuple[str, int, int]:
    """Stream, term and last sequence of a session's partition."""
    stream = streams.receipts(streams.partition_of(session_id, streams.DEFAULT_PARTITIONS))
    found = await stack.redis.xrevrange(stream, count=1)
    assert found, f"{stream} is empty"
    fields = found[0][1]
    assert fields is not None
    return stream, int(fields[b"t"]), int(fields[b"q"])


async def forge(stack: Stack, receipt: ChangeReceipt, sequence: int, term: int | None = None) -> None:
    """Writes an entry as a tracker would."""
    stream, last_term, _ = await next_place(stack, receipt.session_id)
    fields: dict[str, str | int] = {
        "s": receipt.session_id,
        "k": receipt.kind,
        "t": last_term if term is None else term,
        "q": sequence,
        "r": receipt.model_dump_json(),
    }
    await stack.redis.xadd(stream, fields)  # type: ignore[arg-type] # redis-py's parameter is an invariant dict


def receipt(epoch: str, base: int, session_id: str = "s") -> ChangeReceipt:
    """A receipt that says nothing but its interval."""
    return ChangeReceipt(
        session_id=session_id, epoch=epoch, base_revision=base, revision=base + 1, complete=True, committed_at=NOON
    )


async def follows(stack: Stack, client: SocketClient, message_id: str, scope_id: str = "scope") -> None:
    """Waits until the next commit's frame arrives."""
    await stack.add("s", message_id)
    await client.until(
        lambda: any(each["id"] == message_id for frame in client.told(scope_id) for each in frame["operations"])
    )


async def flows(stack: Stack, client: SocketClient, prefix: str) -> None:
    """Commits until one of them arrives as a frame: those before it may fall to a reset."""
    numbers = itertools.count()

    async def told() -> bool:
        await stack.add("s", f"{prefix}{next(numbers)}")
        return any(each["id"].startswith(prefix) for frame in client.told() for each in frame["operations"])

    await eventually(told)


async def test_a_minted_epoch_is_one_reset_for_every_scope_and_nothing_before_it(stack: Stack) -> None:
    await stack.session("s")
    client = await stack.connect()
    scopes = [f"scope{number}" for number in range(12)]
    for scope_id in scopes:
        await client.subscribe("s", scope_id)
    old = await stack.pool.fetchval("SELECT epoch FROM conversation.epoch")
    new = await stack.pool.fetchval("SELECT conversation.mint_epoch('test')")
    assert new != old
    for scope_id in scopes:
        await client.until(lambda scope_id=scope_id: client.resets(scope_id) == 1)  # type: ignore[misc] # a bound default
    await stack.add("s", "m")
    for scope_id in scopes:
        await client.until(lambda scope_id=scope_id: client.told(scope_id)[-1]["operations"] != [])  # type: ignore[misc] # bound
        told = client.frames(scope_id)
        assert [frame["epoch"] for frame in told if frame["epoch"] not in {old, new}] == []
        first = next(place for place, frame in enumerate(told) if frame["epoch"] == new)
        assert told[first].get("reset") is True
        assert all("reset" not in frame for frame in told[first + 1 :])
        assert all(frame["epoch"] == new for frame in told[first:])


async def test_mints_in_quick_succession_end_in_the_last_one(stack: Stack) -> None:
    await stack.session("s")
    client = await stack.connect()
    await client.subscribe("s")
    epochs = [await stack.pool.fetchval("SELECT conversation.mint_epoch('test')") for _ in range(4)]
    epoch = epochs[-1]
    await client.until(lambda: client.told()[-1:] != [] and client.told()[-1]["epoch"] == epoch)
    await follows(stack, client, "m")
    assert client.told()[-1]["epoch"] == epoch


async def test_a_scope_opened_after_a_mint_is_of_the_new_epoch(stack: Stack) -> None:
    await stack.session("s")
    client = await stack.connect()
    for number in range(5):
        epoch = await stack.pool.fetchval("SELECT conversation.mint_epoch('test')")
        assert (await client.subscribe("s", f"scope{number}"))["epoch"] == epoch


async def test_receipts_of_a_foreign_epoch_are_dropped(stack: Stack) -> None:
    await stack.session("s")
    client = await stack.connect()
    await client.subscribe("s")
    revision = await stack.revision("s")
    _, _, sequence = await next_place(stack, "s")
    await forge(stack, receipt("foreign", revision), sequence + 1)
    own = await stack.pool.fetchval("SELECT epoch FROM conversation.epoch")
    await forge(stack, receipt(own, revision), sequence + 2)
    await client.until(lambda: bool(client.told()))
    assert [(frame["epoch"], frame["revision"]) for frame in client.told()] == [(own, str(revision + 1))]


async def test_repeated_receipts_are_told_once(stack: Stack) -> None:
    await stack.session("s")
    client = await stack.connect()
    await client.subscribe("s")
    revision = await stack.revision("s")
    own = await stack.pool.fetchval("SELECT epoch FROM conversation.epoch")
    _, term, sequence = await next_place(stack, "s")
    for place in (1, 2):
        await forge(stack, receipt(own, revision), sequence + place)
        await forge(stack, receipt(own, revision), place, term=term + 100)
    await forge(stack, receipt(own, revision + 1), sequence + 3)
    await client.reached(revision + 2)
    assert [frame["revision"] for frame in client.told()] == [str(revision + 1), str(revision + 2)]


async def test_a_hole_is_checked_at_once(stack: Stack) -> None:
    """The check is there before the period's next one could be: it stands between the hole and the next change."""
    await stack.session("s")
    client = await stack.connect()
    await client.subscribe("s")
    await follows(stack, client, "m")
    _, _, sequence = await next_place(stack, "s")
    own = await stack.pool.fetchval("SELECT epoch FROM conversation.epoch")
    told = client.told()
    before = len([frame for frame in client.frames() if "check" in frame])
    for number in range(1, 4):
        await forge(stack, receipt(own, 0, session_id="s"), sequence + 5 * number)
        await client.until(
            lambda number=number: len([each for each in client.frames() if "check" in each]) >= before + number  # type: ignore[misc] # bound
        )
    assert client.told() == told


async def test_a_receipt_that_was_lost_is_found(stack: Stack) -> None:
    """The entry is deleted before a gateway reads it: the scope sees the source's revision, or a gap."""
    await stack.session("s")
    client = await stack.connect()
    reply = await client.subscribe("s")
    await stack.stop("revision")
    await stack.add("s", "lost")
    await stack.start("revision")
    revision = await stack.revision("s")
    await client.reached(revision)
    assert int(reply["revision"]) < revision
    await eventually(lambda: stack.redis.exists(streams.receipts(0)))
    await stack.tracked()
    await client.until(lambda: any("check" in frame for frame in client.frames()))


@pytest.mark.parametrize("fields", [{"x": "1"}, {"s": "s", "k": "change", "t": "x", "q": "1", "r": "{}"}])
async def test_an_entry_that_no_tracker_wrote_is_passed_over(stack: Stack, fields: dict[str, str]) -> None:
    await stack.session("s")
    client = await stack.connect()
    await client.subscribe("s")
    stream, _, _ = await next_place(stack, "s")
    await stack.redis.xadd(stream, fields)  # type: ignore[arg-type] # redis-py's parameter is an invariant dict
    await follows(stack, client, "m")


@pytest.mark.parametrize("payload", ["", "{}", '{"kind":"change"}', "[" * 5000])
async def test_a_receipt_that_cannot_be_read_does_no_harm(stack: Stack, payload: str) -> None:
    await stack.session("s")
    client = await stack.connect()
    await client.subscribe("s")
    stream, term, sequence = await next_place(stack, "s")
    await stack.redis.xadd(stream, {"s": "s", "k": "change", "t": term, "q": sequence + 1, "r": payload})
    await follows(stack, client, "m")


async def test_redis_flushed(stack: Stack) -> None:
    await stack.session("s")
    client = await stack.connect()
    await client.subscribe("s")
    for number in range(3):
        await stack.redis.flushall()
        await follows(stack, client, f"m{number}")
    assert (await client.subscribe("s", "later"))["success"]


@pytest.mark.parametrize("crash", [False, True])
async def test_redis_restarted(database_url: str, redis_server: RedisServer, crash: bool) -> None:
    """It comes back empty. The service stays up, and frames flow again."""
    async with Stack(database_url, redis_server.url) as stack:
        await stack.start_all()
        await stack.session("s")
        client = await stack.connect()
        await client.subscribe("s")
        for number in range(2):
            await asyncio.to_thread(redis_server.kill if crash else redis_server.stop)
            await eventually(lambda: stack.status("gateway"), lambda found: found[0] == 503)
            status, body = await stack.call("GET", "/ready")
            assert (status, body["status"]) == (503, "starting")
            assert (await stack.call("GET", "/health")) == (200, {"status": "alive"})
            await stack.add("s", f"meanwhile{number}")
            await asyncio.to_thread(redis_server.start)
            await client.reached(await stack.revision("s"))
            await stack.ready("gateway")
            await follows(stack, client, f"m{number}")
            assert (await stack.call("GET", "/api/v1/task-sessions/s/messages"))[0] == 200
        assert not client.closed


async def test_requests_while_redis_is_away_fail_in_time_and_may_be_asked_again(
    database_url: str, redis_server: RedisServer
) -> None:
    async with Stack(database_url, redis_server.url, request_timeout=0.5) as stack:
        await stack.start_all()
        await stack.session("s")
        client = await stack.connect()
        await asyncio.to_thread(redis_server.kill)
        status, body = await stack.call("GET", "/api/v1/task-sessions/s/messages")
        assert (status, set(body)) == (503, {"error"})
        status, body = await stack.call("POST", "/api/v1/workspaces", json={"id": "x", "name": "X"})
        assert status == 503
        error = body["error"]
        assert isinstance(error, dict)
        assert (error["code"], error["retryable"]) == ("unavailable", True)
        refused = await client.subscribe("s")
        assert (refused["error"]["code"], refused["error"]["retryable"]) == ("upstream_failure", True)
        await asyncio.to_thread(redis_server.start)
        await stack.ready("gateway")
        await eventually(lambda: stack.call("GET", "/api/v1/task-sessions/s/messages"), lambda found: found[0] == 200)


async def test_a_gateway_that_starts_before_redis_and_the_others(database_url: str, redis_server: RedisServer) -> None:
    async with Stack(database_url, redis_server.url, request_timeout=0.5) as stack:
        await asyncio.to_thread(redis_server.stop)
        await stack.start("gateway")
        await eventually(lambda: stack.status("gateway"), lambda found: found[0] == 503)
        await eventually(lambda: stack.status("gateway"), lambda found: "redis" in str(found[1]))
        status, _ = await stack.call("GET", "/api/v1/task-sessions/s/messages")
        assert status == 503
        await asyncio.to_thread(redis_server.start)
        await eventually(lambda: stack.status("gateway"), lambda found: "redis" not in str(found[1]))
        assert "reader" in str((await stack.status("gateway"))[1])
        await stack.start("revision")
        await stack.tracked()
        await stack.start("reader")
        await stack.ready("gateway")
        await stack.session("s")
        client = await stack.connect()
        await eventually(lambda: client.subscribe("s"), lambda reply: bool(reply["success"]))
        await follows(stack, client, "m")


async def test_a_gateway_waits_for_the_schema(empty_database_url: str, redis_url: str) -> None:
    stack = Stack(empty_database_url, redis_url)
    stack.room = False
    async with stack:
        await stack.start("gateway")
        await eventually(lambda: stack.status("gateway"), lambda found: "database" in str(found[1]))
        assert (await stack.status("gateway"))[0] == 503


async def test_a_killed_tracker(database_url: str, redis_url: str) -> None:
    """Checks still tell; when it is back, frames flow."""
    async with Stack(database_url, redis_url) as stack:
        await stack.start("revision", process=True)
        await stack.tracked()
        await stack.start("reader")
        await stack.start("gateway")
        await stack.ready("gateway")
        await stack.session("s")
        client = await stack.connect()
        await client.subscribe("s")
        await follows(stack, client, "before")
        await stack.kill("revision")
        await stack.add("s", "meanwhile")
        await client.reached(await stack.revision("s"))
        assert client.frames()[-1].get("check") is True
        _, term, _ = await next_place(stack, "s")
        await stack.start("revision", process=True)
        await eventually(lambda: next_place(stack, "s"), lambda found: found[1] > term)
        await flows(stack, client, "after")


async def test_killed_readers_and_gateways_come_back(database_url: str, redis_url: str) -> None:
    async with Stack(database_url, redis_url) as stack:
        await stack.start("revision")
        await stack.tracked()
        await stack.start("reader", process=True)
        await stack.start("gateway", process=True)
        await stack.ready("gateway")
        await stack.session("s")
        client = await stack.connect()
        await client.subscribe("s")
        await follows(stack, client, "one")
        await stack.kill("reader")
        await follows(stack, client, "two")
        await stack.start("reader", process=True)
        await stack.ready("reader")
        await eventually(lambda: client.subscribe("s", "again"), lambda reply: bool(reply["success"]))
        await stack.kill("gateway")
        await client.ended()
        await stack.start("gateway", process=True)
        await stack.ready("gateway")
        other = await stack.connect()
        assert (await other.subscribe("s"))["success"]
        await follows(stack, other, "three")
