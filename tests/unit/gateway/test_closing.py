"""A connection that is ended, or lost, while its upgrade is under way."""

import asyncio
from collections import Counter

import aiohttp
from aiohttp import test_utils, web

from services.gateway.identity.caller import LOCAL_CALLER
from services.gateway.websocket.closes import UNAUTHENTICATED
from services.gateway.websocket.connection import Connection
from services.gateway.websocket.limits import Place
from services.gateway.websocket.registry import Connections
from tests.unit.gateway.in_memory import Gateway
from tests.unit.gateway.memory_source import settled


async def test_it_is_told_as_soon_as_it_is_through() -> None:
    gateway, connections = Gateway(), Connections()

    async def socket(request: web.Request) -> web.WebSocketResponse:
        connection = Connection(LOCAL_CALLER, gateway.hub, {}, Place("local", Counter(), 1))
        connections.add(connection)
        assert connections.end(LOCAL_CALLER.identity.user, ()) == 1
        try:
            return await connection.serve(request)
        finally:
            connections.discard(connection)

    application = web.Application()
    application.router.add_get("/ws", socket)
    async with (
        test_utils.TestServer(application) as server,
        aiohttp.ClientSession() as http,
        http.ws_connect(server.make_url("/ws")) as client,
    ):
        told = await client.receive(timeout=10)
        assert (told.type, told.data) == (aiohttp.WSMsgType.CLOSE, UNAUTHENTICATED.code)
    await gateway.hub.stop()


async def test_a_client_that_is_gone_by_then_is_no_failure() -> None:
    gateway, arrived = Gateway(), asyncio.Event()
    served: asyncio.Future[web.WebSocketResponse] = asyncio.get_running_loop().create_future()

    async def socket(request: web.Request) -> web.WebSocketResponse:
        arrived.set()
        await settled(lambda: request.transport is None)
        try:
            answer = await Connection(LOCAL_CALLER, gateway.hub, {}, Place("local", Counter(), 1)).serve(request)
        except BaseException as failure:
            served.set_exception(failure)
            raise
        served.set_result(answer)
        return answer

    application = web.Application()
    application.router.add_get("/ws", socket)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        _, writer = await asyncio.open_connection(*runner.addresses[0])
        writer.write(
            b"GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        await arrived.wait()
        writer.transport.abort()
        await asyncio.wait_for(served, 10)
    finally:
        await runner.cleanup()
        await gateway.hub.stop()
