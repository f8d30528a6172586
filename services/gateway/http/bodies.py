"""JSON bodies of requests."""

from typing import TypeVar

import orjson
from aiohttp import web
from pydantic import BaseModel, ValidationError

from services.gateway.http.errors import BadRequest
from shared.contracts.errors import RequestFailed, problem

MAX_SMALL_BYTES = 64 << 10
"""Largest body of a route that takes a few short fields: anyone may send to some of them."""

ModelT = TypeVar("ModelT", bound=BaseModel)


async def small_body(request: web.Request, model: type[ModelT]) -> ModelT:
    """The body as the model has it; each field of its JSON type. Raises RequestFailed."""
    data = bytearray()
    async for part in request.content.iter_any():
        data += part
        if len(data) > MAX_SMALL_BYTES:
            raise RequestFailed("too_large", f"the body is larger than {MAX_SMALL_BYTES} bytes")
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise BadRequest("the body is not JSON") from None
    if not isinstance(found, dict):
        raise BadRequest("the body must be a JSON object")
    try:
        return model.model_validate(found, strict=True)
    except ValidationError as error:
        raise BadRequest(problem(error, "body")) from None
