"""A connection that is ended while its upgrade is under way."""

import aiohttp
from aiohttp import test_utils, web

from services.gateway.identity.caller import LOCAL_CALLER
from services.gateway.websocket.closes import UNAUTHENTICATED
from services.gateway.websocket.connection import Connection
from services.gateway.websocket.registry import Connections
from tests.unit.gateway.in_memory import Gateway, place


async def test_it_is_told_as_soon_as_it_is_through() -> None:
    gateway, connections = Gateway(), Connections()

    async def socket(request: web.Request) -> web.WebSocketResponse:
        connection = Connection(LOCAL_CALLER, gateway.hub, {}, place(1))
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
