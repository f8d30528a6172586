"""What every request passes first: where it may come from, and who sent it."""

import logging

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler, Middleware

from services.gateway.http.cors import ORIGIN, is_preflight, preflight
from services.gateway.http.errors import told
from services.gateway.http.keys import AUTHENTICATION, CALLER, FORMS, IDENTITY
from services.gateway.http.queries import require_storable
from services.gateway.http.routes import Access, Route
from services.gateway.identity.caller import Caller
from shared.contracts.errors import Failure, RequestFailed
from shared.database import AWAY
from shared.origins import refusal

logger = logging.getLogger(__name__)


def guarded(allowed_hosts: frozenset[str] | None) -> Middleware:
    """Refuses foreign hosts and origins with 403, on every method and on the WebSocket's upgrade; answers browsers that
    ask what pages of permitted origins may send.
    """

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        origin = request.headers.get("Origin")
        reason = refusal(request.headers.get("Host"), origin, allowed_hosts)
        if reason is not None:
            raise RequestFailed("forbidden", reason)
        if origin is not None:
            request[ORIGIN] = origin
            if is_preflight(request):
                return preflight()
        return await handler(request)

    return guard


def admitting(route: Route) -> Handler:
    """The route's handler for callers that may use it; its failures in the route's form.

    401 where nobody is signed in, before anything else is looked at; 403 where an administrator is needed; then 400 for
    a query that no row can match, unless the route has an order of its own.
    """

    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            if route.access != "public":
                caller = request[CALLER] = await _caller(request, route.access)
                request[IDENTITY] = caller.identity
            if not route.orders_checks:
                require_storable(request)
            return await route.handler(request)
        except RequestFailed as failed:
            return told(failed.failure, route.form)
        except AWAY as error:
            logger.warning("%s %s: the database did not answer: %s", route.method, route.path, type(error).__name__)
            return told(Failure(code="unavailable", message="the database did not answer; ask again"), route.form)

    return handle


async def _caller(request: web.Request, access: Access) -> Caller:
    caller = await request.app[AUTHENTICATION].caller(request)
    if caller is None:
        raise RequestFailed("unauthenticated", "authentication required")
    if access == "administrator" and not caller.administrator:
        raise RequestFailed("forbidden", "only an administrator may do this")
    return caller


@web.middleware
async def answering(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turns errors that no handler has turned into JSON, in the form of the route; nothing answers in HTML."""
    form = request.app[FORMS].get(request.match_info.route, "plain")
    try:
        return await handler(request)
    except RequestFailed as failed:
        return told(failed.failure, form)
    except web.HTTPRequestEntityTooLarge:
        return told(Failure(code="too_large", message="the body is too large"), form)
    except (HttpProcessingError, web.RequestPayloadError):  # met while the body is read: its coding, its parts
        return told(Failure(code="invalid_query", message="the body is not what its headers say"), form)
    except web.HTTPException as refused:
        if refused.status < 400:
            raise
        headers = {"Allow": refused.headers["Allow"]} if "Allow" in refused.headers else None
        return web.json_response({"error": refused.reason.lower()}, status=refused.status, headers=headers)
    except Exception:
        logger.exception("%s %s failed", request.method, request.match_info.route.resource)
        return told(Failure(code="upstream_failure", message="the request failed; it was logged"), form)
