"""Every request is counted, and named in what is logged meanwhile."""

import secrets

from aiohttp import web
from aiohttp.typedefs import Handler

from services.gateway.metrics import REQUESTS
from shared.telemetry import logged_with

HEADER = "X-Request-Id"
"""Names a request to whoever reports it: the lines that were logged about it hold the same."""

REQUEST_ID = web.RequestKey("request_id", str)


@web.middleware
async def watched(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Gives the request an id, and counts it by its status. An id that the client sends is not taken over: it would be
    logged.
    """
    request[REQUEST_ID] = secrets.token_hex(8)
    with logged_with(request=request[REQUEST_ID]):
        try:
            response = await handler(request)
        except web.HTTPException as ended:
            _count(ended.status)
            raise
    _count(response.status)
    return response


async def name_request(request: web.Request, response: web.StreamResponse) -> None:
    """Tells the id."""
    if (name := request.get(REQUEST_ID)) is not None:
        response.headers[HEADER] = name


def _count(status: int) -> None:
    REQUESTS.labels(f"{status // 100}xx").inc()
