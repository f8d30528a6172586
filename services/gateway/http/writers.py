"""The writers' routes: JSON bodies become commands, and each answers after its commit."""

from collections.abc import Mapping
from typing import Any

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler
from pydantic import ValidationError

from services.gateway.http.errors import BadRequest
from services.gateway.http.keys import CONTROL, IDENTITY, SOURCE
from services.gateway.http.routes import Answer, Json, Method, Route, typed_errors
from shared.contracts.commands import COMMAND, DeleteSession
from shared.contracts.control import AccessChanged
from shared.contracts.errors import problem


def writer(kind: str, id_field: str | None = None, *, body: bool = True) -> Handler:
    """A handler for one kind of command.

    `id_field`: the command's field that the body calls `id`. Names in the path win over names in the body. Without
    `body` the path says everything.
    """

    async def handle(request: web.Request) -> web.StreamResponse:
        fields = await _fields(request) if body else {}
        if id_field is not None and "id" in fields:
            fields[id_field] = fields.pop("id")
        try:
            command = COMMAND.validate_python({**fields, **request.match_info, "kind": kind}, strict=True)
        except ValidationError as error:
            raise BadRequest(problem(error, "body")) from None
        result = await request.app[SOURCE].command(request[IDENTITY], command)
        if isinstance(command, DeleteSession):
            await request.app[CONTROL].announce(AccessChanged(session_id=command.session_id))
        return web.json_response(
            {
                "session_id": result.session_id,
                "epoch": result.epoch,
                "base_revision": str(result.base_revision),
                "revision": str(result.revision),
            }
        )

    return handle


async def _fields(request: web.Request) -> dict[str, Any]:
    data = await request.read()
    if not data:
        return {}
    try:
        fields: Mapping[str, Any] | object = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise BadRequest("the body is not JSON") from error
    if not isinstance(fields, Mapping):
        raise BadRequest("the body must be a JSON object")
    return dict(fields)


_RECEIPT: Json = {
    "type": "object",
    "required": ["session_id", "epoch", "base_revision", "revision"],
    "properties": {
        "session_id": {"type": "string"},
        "epoch": {"type": "string"},
        "base_revision": {"type": "string", "pattern": "^(0|[1-9][0-9]*)$"},
        "revision": {"type": "string", "pattern": "^(0|[1-9][0-9]*)$"},
    },
}
_SESSION = "/api/v1/task-sessions/{session_id}"


def _route(
    method: Method, path: str, kind: str, summary: str, id_field: str | None = None, *, body: bool = True
) -> Route:
    answers = (Answer(200, "Committed; what the commit did.", _RECEIPT), *typed_errors(404, 409, 429))
    schema: Json | None = {"type": "object"} if body else None
    return Route(
        method, path, writer(kind, id_field, body=body), summary, "writers", answers, form="typed", body=schema
    )


ROUTES = (
    _route("POST", "/api/v1/workspaces", "create_workspace", "Create a workspace", "workspace_id"),
    _route("POST", "/api/v1/tasks", "create_task", "Create a task", "task_id"),
    _route("DELETE", "/api/v1/tasks/{task_id}", "delete_task", "Delete a task with its sessions", body=False),
    _route("POST", "/api/v1/task-sessions", "create_session", "Create a session", "session_id"),
    _route("DELETE", _SESSION, "delete_session", "Delete a session with its messages and turns", body=False),
    _route("POST", _SESSION + "/messages", "create_message", "Create a message", "message_id"),
    _route("PATCH", _SESSION + "/messages/{message_id}", "update_message", "Replace fields of a message"),
    _route("DELETE", _SESSION + "/messages/{message_id}", "delete_message", "Delete a message", body=False),
    _route("POST", _SESSION + "/messages/{message_id}/append", "append_message", "Append text to a message"),
    _route("POST", _SESSION + "/turns", "start_turn", "Start a turn", "turn_id"),
    _route("POST", _SESSION + "/turns/{turn_id}/complete", "complete_turn", "Complete a turn"),
)
