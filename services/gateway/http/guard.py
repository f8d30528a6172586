"""What every request passes first: where it may come from, and who sent it."""

import logging

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from services.gateway.http.errors import BadRequest, plain
from services.gateway.http.keys import IDENTITY
from services.gateway.http.queries import unstorable
from shared.contracts.errors import RequestFailed
from shared.contracts.identity import LOCAL_USER
from shared.origins import refusal

logger = logging.getLogger(__name__)


def guarded(allowed_hosts: frozenset[str]) -> Middleware:
    """Refuses foreign hosts and origins with 403, on every method and on the WebSocket's upgrade, and queries that no
    row can match with 400. Names the local user.
    """

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        reason = refusal(request.headers.get("Host"), request.headers.get("Origin"), allowed_hosts)
        if reason is not None:
            return web.json_response({"error": reason}, status=403)
        if (name := unstorable(request)) is not None:
            raise BadRequest(f"{name.replace(chr(0), '?')[:100]} holds a NUL character, which no row can hold")
        request[IDENTITY] = LOCAL_USER
        return await handler(request)

    return guard


@web.middleware
async def answering(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turns errors that no handler has turned into JSON; nothing answers in HTML."""
    try:
        return await handler(request)
    except RequestFailed as failed:
        return plain(failed.failure)
    except web.HTTPRequestEntityTooLarge:
        return web.json_response({"error": "the body is too large"}, status=413)
    except web.HTTPException as refused:
        if refused.status < 400:
            raise
        headers = {"Allow": refused.headers["Allow"]} if "Allow" in refused.headers else None
        return web.json_response({"error": refused.reason.lower()}, status=refused.status, headers=headers)
    except Exception:
        logger.exception("%s %s failed", request.method, request.match_info.route.resource)
        return web.json_response({"error": "the request failed; it was logged"}, status=500)
