"""The server itself: deadlines, load, its end, TLS, and the port."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import grpc
import pytest
from faststream.redis.parser import BinaryMessageFormatV1
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2_grpc
from kandev_plugin_sdk import DeadlineExceeded, Host, MessageFilter, Unauthenticated, Unavailable
from pydantic import SecretStr
from redis.asyncio import Redis

from services.gateway.main import serve
from services.gateway.rpc.server import MOST_CALLS
from services.gateway.rpc.streams import MOST_STREAMS
from shared.broker.cursor import START, Cursor
from shared.contracts import streams
from shared.settings import Settings
from tests.integration.rpc.calls import Calls, Rows
from tests.integration.rpc.conftest import new_plugin
from tests.support.stack import Stack
from tests.support.waiting import eventually

T = TypeVar("T")

# Keeps every read of messages waiting until its transaction ends.
LOCK = "LOCK TABLE task_session_messages IN ACCESS EXCLUSIVE MODE"


async def test_a_call_ends_at_its_deadline_and_not_before(stack: Stack) -> None:
    """The deadline is the call's, and not the gateway's own of five seconds."""
    plugin = await new_plugin(stack)
    rows = await Rows(stack).make()
    name = await rows.add("m")
    async with grpc.aio.insecure_channel(stack.rpc_of()) as channel, stack.pool.acquire() as connection:
        calls = Calls(channel, plugin.token)
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(LOCK)
        with pytest.raises(grpc.aio.AioRpcError) as late:
            await calls.page(task_ids=[rows.task], seconds=0.3)
        assert late.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        patient = asyncio.ensure_future(calls.ids(task_ids=[rows.task], seconds=60))
        # The gateway's own patience, found to be over by the call or by its read.
        unset = await asyncio.gather(*(calls.refused(task_ids=[rows.task], seconds=None) for _ in range(6)))
        assert {status for status, _ in unset} == {"DEADLINE_EXCEEDED"}
        assert not patient.done()
        await transaction.rollback()
        assert await patient == [name]


async def test_a_call_that_has_hardly_any_time_is_told_so_and_not_that_nobody_answers(stack: Stack) -> None:
    """Whoever finds that it is over: the caller, the gateway's call, or its read, before it has asked anybody."""
    plugin = await new_plugin(stack)
    async with grpc.aio.insecure_channel(stack.rpc_of()) as channel:
        calls = Calls(channel, plugin.token)
        await calls.page()
        told: set[str] = set()
        for number in range(300):
            try:
                await calls.page(seconds=number * 0.00001)
            except grpc.aio.AioRpcError as error:
                told.add(error.code().name)
    assert told == {"DEADLINE_EXCEEDED"}


async def test_calls_under_way_end_well_when_the_gateway_is_stopped(stack: Stack) -> None:
    plugin = await new_plugin(stack)
    rows = await Rows(stack).make()
    name = await rows.add("m")
    async with grpc.aio.insecure_channel(stack.rpc_of()) as channel, stack.pool.acquire() as connection:
        calls = Calls(channel, plugin.token)
        await calls.page()
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(LOCK)
        under_way = asyncio.ensure_future(calls.ids(task_ids=[rows.task]))
        await eventually(lambda: _waiting(stack), bool)
        stopping = asyncio.ensure_future(stack.stop("gateway"))
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        await transaction.rollback()
        assert await under_way == [name]
        await stopping


async def _waiting(stack: Stack) -> int:
    """Reads that wait for the table."""
    found: int = await stack.pool.fetchval(
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'task_session_messages'::regclass"
    )
    return found


async def test_more_calls_than_it_takes_are_told_so_and_the_others_are_answered(stack: Stack) -> None:
    plugin = await new_plugin(stack)
    rows = await Rows(stack).make()
    name = await rows.add("m")
    async with grpc.aio.insecure_channel(stack.rpc_of()) as channel, stack.pool.acquire() as connection:
        calls = Calls(channel, plugin.token)
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(LOCK)
        asked = [asyncio.ensure_future(calls.ids(task_ids=[rows.task], seconds=60)) for _ in range(MOST_CALLS + 20)]
        await eventually(lambda: _done(asked), lambda count: count == 20)
        await transaction.rollback()
        answers = await asyncio.gather(*asked, return_exceptions=True)
    refused = [each for each in answers if isinstance(each, grpc.aio.AioRpcError)]
    assert {each.code() for each in refused} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert [each for each in answers if not isinstance(each, BaseException)] == [[name]] * MOST_CALLS


async def test_streams_of_anybody_leave_room_for_plugins(stack: Stack) -> None:
    plugin = await new_plugin(stack)
    request = health_pb2.HealthCheckRequest()
    async with grpc.aio.insecure_channel(stack.rpc_of()) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        watches = [health.Watch(request) for _ in range(MOST_STREAMS)]
        for watch in watches:
            assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        reflected = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(timeout=20)
        for further in (health.Watch(request, timeout=20), reflected):
            assert await further.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        await Calls(channel, plugin.token).page()
        for watch in watches:
            watch.cancel()
        again = await eventually(lambda: _unless_full(health.Watch(request).read()), bool)
        assert again is not None
        assert again.status == health_pb2.HealthCheckResponse.SERVING


async def test_a_watcher_that_takes_nothing_holds_up_nobody(stack: Stack) -> None:
    """By hand: no library asks for a window of no bytes, and then waits."""
    host, port = stack.rpc_of().split(":")
    _, stubborn = await asyncio.open_connection(host, int(port))
    fields = {":method": "POST", ":scheme": "http", ":path": "/grpc.health.v1.Health/Watch", ":authority": "x"}
    fields |= {"content-type": "application/grpc", "te": "trailers"}
    headers = b"".join(b"\x00" + _counted(name) + _counted(value) for name, value in fields.items())
    no_window = b"\x00\x04" + bytes(4)
    stubborn.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(4, 0, 0, no_window))
    stubborn.write(_frame(1, 4, 1, headers) + _frame(0, 1, 1, bytes(5)))
    await stubborn.drain()
    async with grpc.aio.insecure_channel(stack.rpc_of()) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=60)
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        async with asyncio.timeout(30):
            stopping = asyncio.ensure_future(stack.stop("gateway"))
            assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
            await stopping
    stubborn.close()


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """A frame of HTTP/2."""
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def _counted(text: str) -> bytes:
    return bytes((len(text),)) + text.encode()


async def _unless_full(call: Awaitable[T]) -> T | None:
    """What a call is answered; `None` where there is no room for it."""
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
            raise
        return None


async def test_a_token_that_cannot_be_looked_up_keeps_no_call_beyond_its_time(stack: Stack) -> None:
    await stack.stop("gateway")
    await stack.start("gateway", request_timeout=0.5)
    await stack.ready("gateway")
    plugin = await new_plugin(stack)
    async with grpc.aio.insecure_channel(stack.rpc_of()) as channel, stack.pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("LOCK TABLE gateway.plugin_tokens IN ACCESS EXCLUSIVE MODE")
        async with asyncio.timeout(20):  # the driver's own patience with a statement is longer
            status, _ = await Calls(channel, plugin.token).refused(seconds=None)
        await transaction.rollback()
    assert status in {"DEADLINE_EXCEEDED", "UNAVAILABLE"}


async def test_a_plugin_that_is_disabled_while_its_call_waits_is_not_answered(stack: Stack) -> None:
    plugin = await new_plugin(stack)
    rows = await Rows(stack).make()
    await rows.add("m")
    async with grpc.aio.insecure_channel(stack.rpc_of()) as channel, stack.pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(LOCK)
        asked = asyncio.ensure_future(Calls(channel, plugin.token).refused(task_ids=[rows.task]))
        await eventually(lambda: _waiting(stack), bool)
        assert (await stack.call("POST", f"/api/plugins/{plugin.id}/disable"))[0] == 200
        await transaction.rollback()
        status, _ = await asked
    assert status == "UNAUTHENTICATED"


async def test_calls_that_are_given_up_at_any_moment_leave_the_others_alone(stack: Stack) -> None:
    plugin = await new_plugin(stack)
    rows = await Rows(stack).make()
    name = await rows.add("m")
    async with grpc.aio.insecure_channel(stack.rpc_of()) as channel:
        calls = Calls(channel, plugin.token)
        for turns in range(0, 200, 20):
            # Some are given up by their deadline of a millisecond, the others by who asked.
            asked = [
                asyncio.ensure_future(calls.ids(task_ids=[rows.task], seconds=0.001 if number % 2 else 60))
                for number in range(MOST_CALLS - 4)
            ]
            for _ in range(turns):
                await asyncio.sleep(0)
            for each in asked:
                each.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
            # The gateway may not have heard yet of all that was given up, and counts it until then.
            assert await eventually(lambda: _unless_full(calls.ids(task_ids=[rows.task])), bool) == [name]
        every = await asyncio.gather(*(calls.ids(task_ids=[rows.task]) for _ in range(MOST_CALLS - 4)))
    assert every == [[name]] * (MOST_CALLS - 4)


async def test_lists_go_on_when_one_of_two_readers_dies(stack: Stack) -> None:
    await stack.stop("reader")
    for name in ("first", "second"):
        await stack.start("reader", name=name, process=True)
        await stack.ready(name)
    plugin = await new_plugin(stack)
    rows = await Rows(stack).make()
    names = [await rows.add(f"{number:03}") for number in range(60)]
    wanted = MessageFilter(task_ids=(rows.task,))
    async with Host(stack.rpc_of(), plugin.token, timeout=60) as host:

        async def listed() -> list[str]:
            return [message.id async for message in host.messages().all(wanted, page_size=2)]

        lists = [asyncio.ensure_future(listed()) for _ in range(4)]
        await asyncio.sleep(0)
        await stack.kill("first")
        assert await asyncio.gather(*lists) == [names] * 4


@asynccontextmanager
async def _a_reader_of_another_version(stack: Stack, ok: bytes, body: bytes) -> AsyncIterator[None]:
    """Answers every list with this, in the place of the reader."""

    async def read(redis: Redis) -> None:
        cursor = Cursor(redis, {streams.READS: START})
        while True:
            for fields in [fields for _, rows in await cursor.read(64) for _, fields in rows]:
                request = json.loads(BinaryMessageFormatV1.parse(fields[b"__data__"])[0])
                if request["read"]["kind"] == "host_messages":
                    await redis.xadd(request["reply_to"], {"i": request["request_id"], "o": ok, "b": body})

    await stack.stop("reader")
    async with Redis.from_url(stack.redis_url) as redis:
        reading = asyncio.ensure_future(read(redis))
        try:
            yield
        finally:
            reading.cancel()
            await asyncio.wait([reading])


@pytest.mark.parametrize(
    ("ok", "body"),
    [
        (b"1", b'{"kind":"host_messages","rows":[],"has_more":false}'),
        (b"1", b""),
        (b"0", b"\n\x00\x12\x00"),
        (b"0", b'{"error":{"code":"a code to come","message":"m"}}'),
    ],
)
async def test_what_a_reader_of_another_version_answers_is_no_page(stack: Stack, ok: bytes, body: bytes) -> None:
    plugin = await new_plugin(stack)
    async with grpc.aio.insecure_channel(stack.rpc_of()) as channel:
        calls = Calls(channel, plugin.token)
        async with _a_reader_of_another_version(stack, ok, body):
            assert await calls.refused() == ("UNAVAILABLE", "the answer cannot be read; ask again")
        await stack.start("reader")
        await stack.ready("reader")
        await eventually(lambda: _unless_full(calls.page()), bool)


async def _done(asked: Sequence[asyncio.Future[list[str]]]) -> int:
    return sum(each.done() for each in asked)


async def test_a_gateway_that_comes_back_is_found_again_by_the_sdk(stack: Stack) -> None:
    plugin = await new_plugin(stack)
    rows = await Rows(stack).make()
    await rows.add("m")
    wanted = MessageFilter(task_ids=(rows.task,))
    async with Host(stack.rpc_of(), plugin.token, timeout=60) as host:
        await host.messages().list(wanted)
        await stack.stop("gateway")
        asked = asyncio.ensure_future(host.messages().list(wanted))
        async with Host(stack.rpc_of(), plugin.token, timeout=0.5) as hasty:
            with pytest.raises((Unavailable, DeadlineExceeded)):
                await hasty.messages().list(wanted)
        assert not asked.done()
        await stack.start("gateway")
        messages, _ = await asked
    assert [message.id for message in messages] == [f"m-{rows.key}"]


async def test_the_capability_is_looked_at_on_every_gateway(stack: Stack) -> None:
    """A token is good at any gateway, also at one that started later, and ends at all of them."""
    await stack.start("gateway", name="other")
    await stack.ready("other")
    plugin = await new_plugin(stack, gateways=("gateway", "other"))
    async with Host(stack.rpc_of("other"), plugin.token) as host:
        await host.messages().list()
        await stack.call("POST", f"/api/plugins/{plugin.id}/disable")

        async def ended() -> bool:
            try:
                await host.messages().list()
            except Unauthenticated:
                return True
            return False

        await eventually(ended, bool)


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 that signs itself, and its key."""
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "2", "-subj", "/CN=host", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-out", str(certificate), "-keyout", str(key)),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key


async def test_tls(stack: Stack, certificate: tuple[Path, Path]) -> None:
    await stack.stop("gateway")
    await stack.start("gateway", rpc_tls_cert=certificate[0], rpc_tls_key=certificate[1])
    await stack.ready("gateway")
    plugin = await new_plugin(stack)
    async with Host(stack.rpc_of(), plugin.token, tls=certificate[0].read_bytes()) as host:
        await host.messages().list()
    for tls in (True, False):
        async with Host(stack.rpc_of(), plugin.token, tls=tls, timeout=1) as host:
            with pytest.raises((Unavailable, DeadlineExceeded)):
                await host.messages().list()


@pytest.mark.parametrize("wrong", ["certificate", "key", "both"])
async def test_tls_files_that_are_none_are_told_at_start(
    stack: Stack, certificate: tuple[Path, Path], tmp_path: Path, wrong: str
) -> None:
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("no PEM")
    given = {
        "certificate": (garbage, certificate[1]),
        "key": (certificate[0], garbage),
        "both": (certificate[1], certificate[0]),
    }[wrong]
    settings = Settings(
        database_url=SecretStr(stack.database_url),
        redis_url=SecretStr(stack.redis_url),
        port=0,
        metrics_port=0,
        rpc_port=int(stack.rpc_of().rpartition(":")[2]),
        rpc_tls_cert=given[0],
        rpc_tls_key=given[1],
    )
    await stack.stop("gateway")
    with pytest.raises(OSError, match="the TLS files are no certificate and key"):
        await serve(settings)


async def test_a_port_that_another_gateway_has_is_not_shared(stack: Stack) -> None:
    port = int(stack.rpc_of().rpartition(":")[2])
    settings = Settings(
        database_url=SecretStr(stack.database_url),
        redis_url=SecretStr(stack.redis_url),
        port=0,
        metrics_port=0,
        rpc_port=port,
    )
    with pytest.raises(OSError, match=f"nothing can listen on 127.0.0.1:{port}"):
        await serve(settings)
