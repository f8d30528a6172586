"""What pages of other permitted origins may do: the same as those of the gateway's own (`shared.origins`).

Such a page is of the same host on another port, or on this machine. A browser asks first (the preflight), and shows it
an answer only where that names its origin.
"""

from aiohttp import web

ORIGIN = web.RequestKey("origin", str)
"""The origin of a request that came from a permitted one."""

METHODS = "GET, POST, PUT, PATCH, DELETE"
HEADERS = "Authorization, Content-Type, If-None-Match, X-Kandev-Plugin-Binding, X-Kandev-Managed-Conversation"
"""What requests may carry beside what browsers always let through."""

EXPOSED = "ETag, Retry-After"
"""What scripts may read of answers beside what browsers always show them."""

PREFLIGHT_SECONDS = "600"
"""For how long a browser need not ask again."""


def is_preflight(request: web.Request) -> bool:
    """Whether a browser asks what it may send."""
    return request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers


def preflight() -> web.Response:
    """What it may send, whatever the path: what is there, and whose it is, the request itself is told."""
    return web.Response(
        status=204,
        headers={
            "Access-Control-Allow-Methods": METHODS,
            "Access-Control-Allow-Headers": HEADERS,
            "Access-Control-Max-Age": PREFLIGHT_SECONDS,
        },
    )


async def name_origin(request: web.Request, response: web.StreamResponse) -> None:
    """Says for whom the answer is; nothing to an origin that was refused."""
    response.headers.add("Vary", "Origin")
    origin = request.get(ORIGIN)
    if origin is not None:
        response.headers["Access-Control-Allow-Origin"] = origin
        response.headers["Access-Control-Allow-Credentials"] = "true"
        response.headers["Access-Control-Expose-Headers"] = EXPOSED
