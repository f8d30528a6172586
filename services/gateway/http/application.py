"""The aiohttp application: every route in one table."""

from aiohttp import web

from services.gateway.control import Control
from services.gateway.http import lists, messages
from services.gateway.http.guard import answering, guarded
from services.gateway.http.keys import CONTROL, HUB, IDENTITY, SOURCE
from services.gateway.http.writers import writer
from services.gateway.scopes.hub import Hub
from services.gateway.source.requests import Source
from services.gateway.websocket import subscriptions
from services.gateway.websocket.connection import Action, Connection
from services.gateway.websocket.registry import Connections
from shared.contracts.wire import SUBSCRIBE, UNSUBSCRIBE
from shared.process import Readiness, report

MAX_BODY_BYTES = 32 << 20
"""Largest body of a request: the longest message, in any alphabet that is common."""

ACTIONS: dict[str, Action] = {SUBSCRIBE: subscriptions.subscribe, UNSUBSCRIBE: subscriptions.unsubscribe}

_CONNECTIONS = web.AppKey("connections", Connections)

_SESSION = "/api/v1/task-sessions/{session_id}"


def build(
    source: Source, hub: Hub, control: Control, allowed_hosts: frozenset[str], readiness: Readiness
) -> web.Application:
    """The application of one gateway process."""
    application = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[answering, guarded(allowed_hosts)])
    application[SOURCE] = source
    application[HUB] = hub
    application[CONTROL] = control
    application[_CONNECTIONS] = Connections()
    application.on_shutdown.append(_close_connections)

    async def ready(_: web.Request) -> web.Response:
        status, body = report(readiness)
        return web.json_response(body, status=status)

    application.add_routes(
        [
            web.get("/health", _health),
            web.get("/ready", ready),
            web.get("/ws", _socket),
            web.get("/api/v1/workspaces", lists.list_workspaces),
            web.post("/api/v1/workspaces", writer("create_workspace", "workspace_id")),
            web.get("/api/v1/tasks", lists.list_tasks),
            web.post("/api/v1/tasks", writer("create_task", "task_id")),
            web.delete("/api/v1/tasks/{task_id}", writer("delete_task", body=False)),
            web.get("/api/v1/task-sessions", lists.list_sessions),
            web.post("/api/v1/task-sessions", writer("create_session", "session_id")),
            web.delete(_SESSION, writer("delete_session", body=False)),
            web.get(_SESSION + "/messages", messages.list_messages),
            web.get("/api/v1/agent-sessions/{session_id}/messages", messages.list_messages),
            web.post(_SESSION + "/messages", writer("create_message", "message_id")),
            web.patch(_SESSION + "/messages/{message_id}", writer("update_message")),
            web.delete(_SESSION + "/messages/{message_id}", writer("delete_message", body=False)),
            web.post(_SESSION + "/messages/{message_id}/append", writer("append_message")),
            web.get(_SESSION + "/turns", messages.list_turns),
            web.post(_SESSION + "/turns", writer("start_turn", "turn_id")),
            web.post(_SESSION + "/turns/{turn_id}/complete", writer("complete_turn")),
        ]
    )
    return application


async def _health(_: web.Request) -> web.Response:
    return web.json_response({"status": "alive"})


async def _socket(request: web.Request) -> web.WebSocketResponse:
    connections = request.app[_CONNECTIONS]
    connection = Connection(request[IDENTITY], request.app[HUB], ACTIONS)
    connections.add(connection)
    try:
        return await connection.serve(request)
    finally:
        connections.discard(connection)


async def _close_connections(application: web.Application) -> None:
    await application[_CONNECTIONS].close_all()
