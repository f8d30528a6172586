"""JSON bodies, of requests and of answers."""

from collections.abc import Mapping
from typing import Any, TypeVar

import orjson
from aiohttp import web
from pydantic import BaseModel, ValidationError

from services.gateway.http.errors import BadRequest
from services.gateway.surrogates import lone_surrogate
from shared.contracts.base import Contract
from shared.contracts.errors import RequestFailed, problem
from shared.metadata import collections_paused

MAX_SMALL_BYTES = 64 << 10
"""Largest body of a route that takes a few short fields: anyone may send to some of them."""

_SHOWN_CHARACTERS = 100
"""Of the name of a field that there is not."""

ModelT = TypeVar("ModelT", bound=BaseModel)


async def small_body(request: web.Request, model: type[ModelT]) -> ModelT:
    """The body as the model has it; each field of its JSON type. Raises RequestFailed."""
    return read_as(model, object_in(await bounded(request, MAX_SMALL_BYTES)))


async def bounded(request: web.Request, most: int) -> bytes:
    """The body, read no further than `most` bytes. Raises RequestFailed `too_large`."""
    data = bytearray()
    async for part in request.content.iter_any():
        data += part
        if len(data) > most:
            raise RequestFailed("too_large", f"the body is larger than {most} bytes")
    return bytes(data)


async def object_of(request: web.Request) -> dict[str, Any]:
    """The body's JSON object; an empty body is an empty one. Raises RequestFailed."""
    data = await request.read()
    return object_in(data) if data else {}


def read_as(model: type[ModelT], fields: Mapping[str, Any], called: Mapping[str, str] | None = None) -> ModelT:
    """The fields as the model has them. `called`: the model's fields that a body knows by another name. Raises
    RequestFailed.
    """
    try:
        return model.model_validate(fields, strict=True)
    except ValidationError as error:
        raise BadRequest(problem(error, "body", called or {})) from None


def refuse_unknown(fields: Mapping[str, Any], known: Mapping[str, object]) -> None:
    """Raises RequestFailed for a field that there is not: it is a misspelt one, or means more than is done here."""
    for name in fields:
        if name not in known:
            there = ", ".join(sorted(known)) or "none"
            raise BadRequest(f"{name[:_SHOWN_CHARACTERS]}: no such field; there are: {there}")


def object_in(data: bytes) -> dict[str, Any]:
    """The JSON object that a body is. Raises RequestFailed."""
    try:
        with collections_paused(len(data)):
            found = orjson.loads(data)
    except orjson.JSONDecodeError:
        surrogate = lone_surrogate(data)
        raise BadRequest("the body is not JSON" if surrogate is None else surrogate.problem("the body")) from None
    if not isinstance(found, dict):
        raise BadRequest("the body must be a JSON object")
    return found


def told(body: Contract, status: int = 200) -> web.Response:
    """An answer that a contract describes."""
    return web.json_response(body.model_dump(mode="json"), status=status)


def encoded(body: Mapping[str, Any], status: int = 200) -> web.Response:
    """An answer with parts that are JSON already, or with many rows."""
    return web.Response(body=orjson.dumps(body), status=status, content_type="application/json")
