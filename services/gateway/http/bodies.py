"""JSON bodies of requests."""

from collections.abc import Mapping
from typing import Any, TypeVar

import orjson
from aiohttp import web
from pydantic import BaseModel, ValidationError

from services.gateway.http.errors import BadRequest
from services.gateway.surrogates import lone_surrogate
from shared.contracts.errors import RequestFailed, problem
from shared.metadata import collections_paused

MAX_SMALL_BYTES = 64 << 10
"""Largest body of a route that takes a few short fields: anyone may send to some of them."""

_SHOWN_CHARACTERS = 100
"""Of the name of a field that there is not."""

ModelT = TypeVar("ModelT", bound=BaseModel)


async def small_body(request: web.Request, model: type[ModelT]) -> ModelT:
    """The body as the model has it; each field of its JSON type. Raises RequestFailed."""
    data = bytearray()
    async for part in request.content.iter_any():
        data += part
        if len(data) > MAX_SMALL_BYTES:
            raise RequestFailed("too_large", f"the body is larger than {MAX_SMALL_BYTES} bytes")
    return read_as(model, _object(data))


async def object_of(request: web.Request) -> dict[str, Any]:
    """The body's JSON object; an empty body is an empty one. Raises RequestFailed."""
    data = await request.read()
    return _object(data) if data else {}


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


def _object(data: bytes | bytearray) -> dict[str, Any]:
    try:
        with collections_paused(len(data)):
            found = orjson.loads(data)
    except orjson.JSONDecodeError:
        surrogate = lone_surrogate(data)
        raise BadRequest("the body is not JSON" if surrogate is None else surrogate.problem("the body")) from None
    if not isinstance(found, dict):
        raise BadRequest("the body must be a JSON object")
    return found
