"""The writers' routes: JSON bodies become commands, and each answers after its commit."""

from collections.abc import Mapping
from typing import Any

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler
from pydantic import ValidationError

from services.gateway.http.errors import BadRequest, typed
from services.gateway.http.keys import CONTROL, IDENTITY, SOURCE
from shared.contracts.commands import COMMAND, DeleteSession
from shared.contracts.control import AccessChanged
from shared.contracts.errors import RequestFailed, problem


def writer(kind: str, id_field: str | None = None, *, body: bool = True) -> Handler:
    """A handler for one kind of command.

    `id_field`: the command's field that the body calls `id`. Names in the path win over names in the body. Without
    `body` the path says everything.
    """

    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            fields = await _fields(request) if body else {}
            if id_field is not None and "id" in fields:
                fields[id_field] = fields.pop("id")
            command = COMMAND.validate_python({**fields, **request.match_info, "kind": kind}, strict=True)
            result = await request.app[SOURCE].command(request[IDENTITY], command)
            if isinstance(command, DeleteSession):
                await request.app[CONTROL].announce(AccessChanged(session_id=command.session_id))
        except ValidationError as error:
            return typed(BadRequest(problem(error, "body")).failure)
        except RequestFailed as failed:
            return typed(failed.failure)
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
