"""The writers' routes: JSON bodies become commands, and each answers after its commit."""

from collections.abc import Mapping
from typing import Any, TypeVar

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler
from pydantic import ValidationError

from services.gateway.http.errors import BadRequest
from services.gateway.http.keys import CONTROL, IDENTITY, SOURCE
from services.gateway.http.routes import Answer, Json, Method, Route, typed_errors
from shared.contracts.base import Contract
from shared.contracts.commands import (
    AppendMessage,
    Command,
    CommandResult,
    CompleteTurn,
    CreateMessage,
    CreateSession,
    CreateTask,
    CreateWorkspace,
    DeleteMessage,
    DeleteSession,
    DeleteTask,
    StartTurn,
    UpdateMessage,
    UpdateSession,
)
from shared.contracts.control import AccessChanged
from shared.contracts.errors import problem
from shared.metadata import collections_paused, metadata_text

_CommandT = TypeVar("_CommandT", bound=Contract)


def writer(form: type[Command], id_field: str | None = None, *, body: bool = True) -> Handler:
    """A handler for one kind of command.

    `id_field`: the command's field that the body calls `id`. Names in the path win over names in the body. Without
    `body` the path says everything.
    """

    async def handle(request: web.Request) -> web.StreamResponse:
        fields = await object_of(request) if body else {}
        if id_field is not None and "id" in fields:
            fields[id_field] = fields.pop("id")
        command = command_of(form, {**fields, **request.match_info})
        result = await request.app[SOURCE].command(request[IDENTITY], command)
        if isinstance(command, DeleteSession):
            await request.app[CONTROL].announce(AccessChanged(session_id=command.session_id))
        return committed(result)

    return handle


def command_of(form: type[_CommandT], fields: Mapping[str, Any]) -> _CommandT:
    """The command of that kind that the fields of a body and a path make. Raises RequestFailed."""
    made = {**fields, "kind": form.model_fields["kind"].default}
    if "metadata" in form.model_fields and "metadata" in fields:
        made["metadata"] = _metadata_of(fields["metadata"], form.model_fields["metadata"].default)
    try:
        return form.model_validate(made, strict=True)
    except ValidationError as error:
        raise BadRequest(problem(error, "body")) from None


def _metadata_of(given: object, absent: str | None) -> str | None:
    """A body's object as the text that commands carry. `absent`: what the command has without one."""
    if given is None and absent is None:
        return None
    if not isinstance(given, dict):
        raise BadRequest("metadata: expected an object")
    try:
        return metadata_text(given)
    except ValueError as error:
        raise BadRequest(f"metadata: {error}") from None


def committed(result: CommandResult) -> web.Response:
    """The answer of every writer: what the commit did."""
    return web.json_response(
        {
            "session_id": result.session_id,
            "epoch": result.epoch,
            "base_revision": str(result.base_revision),
            "revision": str(result.revision),
        }
    )


async def object_of(request: web.Request) -> dict[str, Any]:
    """The body's JSON object; an empty body is an empty one. Raises RequestFailed."""
    data = await request.read()
    if not data:
        return {}
    try:
        with collections_paused(len(data)):
            fields: Mapping[str, Any] | object = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise BadRequest("the body is not JSON") from error
    if not isinstance(fields, Mapping):
        raise BadRequest("the body must be a JSON object")
    return dict(fields)


_COMMITTED: Json = {
    "type": "object",
    "required": ["session_id", "epoch", "base_revision", "revision"],
    "properties": {
        "session_id": {"type": "string"},
        "epoch": {"type": "string"},
        "base_revision": {"type": "string", "pattern": "^(0|[1-9][0-9]*)$"},
        "revision": {"type": "string", "pattern": "^(0|[1-9][0-9]*)$"},
    },
}
COMMITTED: Json = {"$ref": "#/$defs/Committed", "$defs": {"Committed": _COMMITTED}}
"""The schema of `committed`."""

_SESSION = "/api/v1/task-sessions/{session_id}"
_MESSAGE = _SESSION + "/messages/{message_id}"
_GUARDED: Json = {
    "anyOf": [
        {"required": ["expected_updated_at"], "properties": {"expected_updated_at": {"type": "string"}}},
        {"required": ["expected_revision"], "properties": {"expected_revision": {"type": "integer"}}},
    ]
}
"""An update says what it expects."""


def body_of(command: type[Contract], path: str, id_field: str | None = None) -> Json:
    """The schema of a body: the command's without what the path says, and with `id` for the id of what is created."""
    schema = command.model_json_schema()
    names = {
        name: "id" if name == id_field else name
        for name in schema["properties"]
        if name != "kind" and f"{{{name}}}" not in path
    }
    required = [names[name] for name in schema.get("required", ()) if name in names]
    return {
        **schema,
        "properties": {given: _decoded(schema["properties"][name]) for name, given in names.items()},
        "required": required,
    }


def _decoded(schema: Json) -> Json:
    """A field's schema in a body: what commands carry as JSON text is an object there."""
    if "anyOf" in schema:
        return {**schema, "anyOf": [_decoded(choice) for choice in schema["anyOf"]]}
    if "contentSchema" not in schema:
        return schema
    default = {"default": orjson.loads(schema["default"])} if "default" in schema else {}
    return {**schema["contentSchema"], **default}


def _route(
    method: Method, path: str, command: type[Command], summary: str, id_field: str | None = None, *, body: bool = True
) -> Route:
    schema = body_of(command, path, id_field) if body else None
    if schema and command is UpdateMessage:
        schema |= _GUARDED
    return Route(
        method,
        path,
        writer(command, id_field, body=body),
        summary,
        "writers",
        (Answer(200, "Committed; what the commit did.", COMMITTED), *typed_errors(404, 409, 429)),
        form="typed",
        body=schema,
        body_required=bool(schema and (schema["required"] or "anyOf" in schema)),
    )


ROUTES = (
    _route("POST", "/api/v1/workspaces", CreateWorkspace, "Create a workspace", "workspace_id"),
    _route("POST", "/api/v1/tasks", CreateTask, "Create a task", "task_id"),
    _route("DELETE", "/api/v1/tasks/{task_id}", DeleteTask, "Delete a task with its sessions", body=False),
    _route("POST", "/api/v1/task-sessions", CreateSession, "Create a session", "session_id"),
    _route("PATCH", _SESSION, UpdateSession, "Replace the state of a session"),
    _route("DELETE", _SESSION, DeleteSession, "Delete a session with its messages and turns", body=False),
    _route("POST", _SESSION + "/messages", CreateMessage, "Create a message", "message_id"),
    _route("PATCH", _MESSAGE, UpdateMessage, "Replace fields of a message"),
    _route("DELETE", _MESSAGE, DeleteMessage, "Delete a message", body=False),
    _route("POST", _MESSAGE + "/append", AppendMessage, "Append text to a message"),
    _route("POST", _SESSION + "/turns", StartTurn, "Start a turn", "turn_id"),
    _route("POST", _SESSION + "/turns/{turn_id}/complete", CompleteTurn, "Complete a turn"),
)
