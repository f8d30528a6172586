"""The upgrade to the WebSocket."""

from collections.abc import Mapping

from aiohttp import web

from services.gateway.http.keys import ACCOUNTS, ACTIONS, CALLER, CONNECTIONS, HUB, LIMITS
from services.gateway.http.routes import Answer, Route, plain_errors
from services.gateway.http.watched import REQUEST_ID
from services.gateway.metrics import REFUSED_CONNECTIONS
from services.gateway.scopes.grants import Grants
from services.gateway.scopes.hub import Hub
from services.gateway.source.requests import Source
from services.gateway.websocket.connection import Action, Connection
from services.gateway.websocket.message_actions import MessageActions
from services.gateway.websocket.session_pushes import SessionPushes
from services.gateway.websocket.subscriptions import Subscriptions
from shared.contracts.errors import RequestFailed
from shared.telemetry import logged_with


def actions(source: Source, hub: Hub, grants: Grants) -> Mapping[str, Action]:
    """Every action of the socket, by name."""
    return {
        **Subscriptions(hub, grants).actions(),
        **MessageActions(source).actions(),
        **SessionPushes(source, hub).actions(),
    }


async def socket(request: web.Request) -> web.WebSocketResponse:
    """Serves one connection until either side closes it. The request's id is the connection's in what is logged."""
    caller, connections = request[CALLER], request.app[CONNECTIONS]
    try:
        connections.require_staying()
        place = request.app[LIMITS].place(_address(request), caller.identity.user)
    except RequestFailed as refused:
        REFUSED_CONNECTIONS.labels(refused.failure.code).inc()
        raise
    with place, logged_with(connection=request[REQUEST_ID]):
        connection = Connection(caller, request.app[HUB], request.app[ACTIONS], place)
        connections.add(connection)
        try:
            return await connection.serve(request)
        finally:
            connections.discard(connection)


def _address(request: web.Request) -> str:
    """Without accounts a gateway is for one machine, with no proxy before it."""
    accounts = request.app.get(ACCOUNTS)
    return (request.remote or "") if accounts is None else accounts.address(request)


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
            *plain_errors(429),
        ),
    ),
)
