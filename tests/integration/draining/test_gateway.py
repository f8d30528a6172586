"""A gateway that is told to stop leaves its clients to others, and finishes what it has in hand."""

import asyncio

import aiohttp
import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from shared.contracts.streams import READS
from tests.support.socket_client import SocketClient
from tests.support.stack import Stack
from tests.support.waiting import eventually

LONG = 300.0
"""Seconds for which no test waits: what should come behind them would never come."""


async def start(stack: Stack, *, drain_pause: float = 0, drain_seconds: float = 0) -> None:
    """All three services, the gateway as a process with these settings."""
    await stack.start("revision")
    await stack.tracked()
    await stack.start("reader")
    await stack.start("gateway", process=True, drain_pause=drain_pause, drain_seconds=drain_seconds)
    await stack.ready("gateway")
    await stack.session("s")


async def draining(stack: Stack) -> None:
    await eventually(lambda: stack.status("gateway"), lambda found: found[1].get("status") == "draining")


async def refused(stack: Stack) -> bool:
    """Whether nothing listens any more."""
    try:
        async with aiohttp.ClientSession() as session, session.get(f"{stack.url}/health"):
            return False
    except aiohttp.ClientConnectionError:
        return True


async def follow(stack: Stack) -> SocketClient:
    client = await stack.connect()
    await client.subscribe("s")
    return client


async def test_it_says_so_first_and_serves_on(database_url: str, redis_url: str) -> None:
    """As long as a load balancer may send something, it is taken. Told a second time, it stops at once."""
    async with Stack(database_url, redis_url) as stack:
        await start(stack, drain_pause=LONG)
        client = await follow(stack)
        stack.tell("gateway")
        await draining(stack)
        assert (await stack.call("GET", "/ready"))[0] == 503
        assert (await stack.call("GET", "/health"))[0] == 200
        async with grpc.aio.insecure_channel(stack.rpc_of()) as channel:
            found = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        assert found.status == health_pb2.HealthCheckResponse.NOT_SERVING
        other = await follow(stack)
        await stack.add("s", "still")
        for each in (client, other):
            await each.reached(await stack.revision("s"))
        await stack.stop("gateway")
        assert [await each.ended() for each in (client, other)] == [1001, 1001]


async def test_connections_are_closed_one_by_one(database_url: str, redis_url: str) -> None:
    """While the first is gone, and nobody can connect any more, the others are served as before."""
    async with Stack(database_url, redis_url) as stack:
        await start(stack, drain_seconds=LONG)
        clients = [await follow(stack) for _ in range(3)]
        stack.tell("gateway")
        ends = [asyncio.create_task(each.ended()) for each in clients]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        staying = [each for each in clients if not each.closed]
        assert len(staying) == 2
        assert await refused(stack)
        await stack.add("s", "still")
        for each in staying:
            await each.reached(await stack.revision("s"))
        await stack.stop("gateway")
        assert [await end for end in ends] == [1001] * 3


async def test_what_is_in_hand_is_answered(database_url: str, redis_url: str) -> None:
    """A request, and one on a WebSocket. Then the process ends."""
    async with Stack(database_url, redis_url, request_timeout=60) as stack:
        await start(stack, drain_seconds=0)
        client = await stack.connect()
        await stack.stop("reader")
        page = asyncio.create_task(stack.call("GET", "/api/v1/task-sessions/s/messages?limit=1"))
        await client.send({"id": "1", "type": "request", "action": "message.list", "payload": {"session_id": "s"}})
        await eventually(lambda: stack.redis.xlen(READS), lambda waiting: waiting >= 2)
        stack.tell("gateway")
        await eventually(lambda: refused(stack))
        assert not page.done()
        await stack.start("reader")
        assert (await client.reply("1"))["type"] == "response"
        assert (await page)[0] == 200
        assert await client.ended() == 1001
        await stack.gone("gateway")


async def test_no_connection_outlasts_it(database_url: str, redis_url: str) -> None:
    """What comes on a connection that is open is answered, with word that it was the last; a WebSocket is refused."""
    async with Stack(database_url, redis_url) as stack:
        await start(stack, drain_seconds=LONG)
        clients = [await follow(stack) for _ in range(2)]
        async with aiohttp.ClientSession() as first, aiohttp.ClientSession() as second:
            for session in (first, second):
                async with session.get(f"{stack.url}/health") as answer:
                    assert "Connection" not in answer.headers
            stack.tell("gateway")
            await eventually(lambda: refused(stack))
            async with first.get(f"{stack.url}/health") as answer:
                assert (answer.status, answer.headers["Connection"]) == (200, "close")
            with pytest.raises(aiohttp.WSServerHandshakeError) as raised:
                await second.ws_connect(f"{stack.url}/ws")
            assert raised.value.status == 503
            with pytest.raises(aiohttp.ClientConnectionError):
                await first.get(f"{stack.url}/health")
        await stack.stop("gateway")
        for client in clients:
            await client.ended()


async def test_without_a_tracker_it_is_degraded(database_url: str, redis_url: str) -> None:
    """Reads are served all the same, and it says so until one is seen."""
    async with Stack(database_url, redis_url, tracker_seconds=2) as stack:
        await stack.start("revision", process=True)
        await stack.tracked()
        await stack.start("reader")
        await stack.start("gateway")
        await stack.session("s")
        await eventually(lambda: stack.status("gateway"), lambda found: found[1]["status"] == "ready")
        await stack.kill("revision")
        status, body = await eventually(lambda: stack.status("gateway"), lambda found: "reasons" in found[1])
        assert (status, body["status"]) == (200, "degraded")
        assert "no tracker was seen for" in str(body["reasons"])
        assert (await stack.call("GET", "/ready"))[0] == 200
        assert (await stack.call("GET", "/api/v1/task-sessions/s/messages?limit=1"))[0] == 200
        await stack.start("revision", process=True)
        await eventually(lambda: stack.status("gateway"), lambda found: found[1] == {"status": "ready"})
