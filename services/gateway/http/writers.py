"""The writers' routes: JSON bodies become commands, and each answers after its commit."""

from collections.abc import Mapping
from typing import Any, TypeVar

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler
from pydantic import TypeAdapter, ValidationError

from services.gateway.http.bodies import object_of, read_as, refuse_unknown
from services.gateway.http.errors import BadRequest
from services.gateway.http.keys import CONTROL, IDENTITY, SOURCE
from services.gateway.http.routes import REVISION, Answer, Json, Method, Route, typed_errors
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
from shared.contracts.wire import HeldRevision
from shared.metadata import metadata_text

_CommandT = TypeVar("_CommandT", bound=Contract)

_REVISION: TypeAdapter[str] = TypeAdapter(HeldRevision)


def writer(form: type[Command], path: str, id_field: str | None = None, *, body: bool = True) -> Handler:
    """A handler for one kind of command.

    `id_field`: the command's field that the body calls `id`. What the path says the body may not. Without `body` the
    path says everything.
    """
    names = fields_of(form, path, id_field) if body else {}

    async def handle(request: web.Request) -> web.StreamResponse:
        command = command_of(form, await object_of(request) if body else {}, request.match_info, names)
        result = await request.app[SOURCE].command(request[IDENTITY], command)
        if isinstance(command, DeleteSession):
            await request.app[CONTROL].announce(AccessChanged(session_id=command.session_id))
        return committed(result)

    return handle


def fields_of(form: type[Contract], path: str, id_field: str | None = None) -> Mapping[str, str]:
    """What a body may hold for a command: names in the body to the command's own. What the path says is not among them,
    and the id of what is created is called `id`.
    """
    return {
        "id" if name == id_field else name: name
        for name in form.model_fields
        if name != "kind" and f"{{{name}}}" not in path
    }


def command_of(
    form: type[_CommandT], body: Mapping[str, Any], path: Mapping[str, str], names: Mapping[str, str]
) -> _CommandT:
    """The command of that kind that a body and the values of a path make. `names`: see `fields_of`. Raises
    RequestFailed.
    """
    refuse_unknown(body, names)
    fields: dict[str, Any] = {names[name]: value for name, value in body.items()}
    if "metadata" in fields:
        fields["metadata"] = _metadata_of(fields["metadata"], form.model_fields["metadata"].default)
    if isinstance(expected := fields.get("expected_revision"), str):
        fields["expected_revision"] = _revision_of(expected)
    called = {field: name for name, field in names.items()}
    return read_as(form, {**fields, **path, "kind": form.model_fields["kind"].default}, called)


def _revision_of(given: str) -> int:
    try:
        return int(_REVISION.validate_python(given))
    except ValidationError as error:
        raise BadRequest(problem(error, "expected_revision")) from None


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


_COMMITTED: Json = {
    "type": "object",
    "required": ["session_id", "epoch", "base_revision", "revision"],
    "properties": {
        "session_id": {"type": "string"},
        "epoch": {"type": "string"},
        "base_revision": REVISION,
        "revision": REVISION,
    },
}
COMMITTED: Json = {"$ref": "#/$defs/Committed", "$defs": {"Committed": _COMMITTED}}
"""The schema of `committed`."""

_EXPECTED: Json = _REVISION.json_schema()
_SESSION = "/api/v1/task-sessions/{session_id}"
_MESSAGE = _SESSION + "/messages/{message_id}"
_GUARDED: Json = {
    "anyOf": [
        {"required": ["expected_updated_at"], "properties": {"expected_updated_at": {"type": "string"}}},
        {"required": ["expected_revision"], "properties": {"expected_revision": {"type": ["integer", "string"]}}},
    ]
}
"""An update says what it expects."""


def body_of(command: type[Contract], path: str, id_field: str | None = None) -> Json:
    """The schema of a body: the command's fields as `fields_of` names them, and no others."""
    schema = command.model_json_schema()
    names = fields_of(command, path, id_field)
    return {
        **schema,
        "properties": {given: _given(name, schema["properties"][name]) for given, name in names.items()},
        "required": [given for given, name in names.items() if name in schema.get("required", ())],
        "additionalProperties": False,
    }


def _given(name: str, schema: Json) -> Json:
    """A field's schema in a body: a revision may be text, as it is in answers."""
    if name == "expected_revision":
        return {**schema, "anyOf": [*schema["anyOf"], _EXPECTED]}
    return _decoded(schema)


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
        writer(command, path, id_field, body=body),
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
