"""The upgrade to the WebSocket."""

from collections.abc import Mapping

from aiohttp import web

from services.gateway.http.keys import ACTIONS, CALLER, CONNECTIONS, HUB
from services.gateway.http.routes import Answer, Route
from services.gateway.scopes.grants import Grants
from services.gateway.scopes.hub import Hub
from services.gateway.source.requests import Source
from services.gateway.websocket.connection import Action, Connection
from services.gateway.websocket.message_actions import MessageActions
from services.gateway.websocket.session_pushes import SessionPushes
from services.gateway.websocket.subscriptions import Subscriptions


def actions(source: Source, hub: Hub, grants: Grants) -> Mapping[str, Action]:
    """Every action of the socket, by name."""
    return {
        **Subscriptions(hub, grants).actions(),
        **MessageActions(source).actions(),
        **SessionPushes(source, hub).actions(),
    }


async def socket(request: web.Request) -> web.WebSocketResponse:
    """Serves one connection until either side closes it."""
    connections = request.app[CONNECTIONS]
    connection = Connection(request[CALLER], request.app[HUB], request.app[ACTIONS])
    connections.add(connection)
    try:
        return await connection.serve(request)
    finally:
        connections.discard(connection)


ROUTES = (
    Route(
        "GET",
        "/ws",
        socket,
        "The WebSocket (docs/protocol.md)",
        "live",
        (
            Answer(101, "The connection is a WebSocket now.", media_type=""),
            Answer(400, "The request asks for no WebSocket.", media_type="application/json"),
        ),
    ),
)
