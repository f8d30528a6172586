"""Whether the process lives and can serve."""

from aiohttp import web

from services.gateway.http.keys import READINESS
from services.gateway.http.routes import Answer, Json, Route
from shared.process import report

_STATUS: Json = {
    "type": "object",
    "required": ["status"],
    "properties": {
        "status": {"type": "string", "enum": ["alive", "ready", "degraded", "starting"]},
        "reasons": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}


async def health(_: web.Request) -> web.Response:
    """The process is alive."""
    return web.json_response({"status": "alive"})


async def ready(request: web.Request) -> web.Response:
    """Whether requests can be served, and what is waited for."""
    status, body = report(request.app[READINESS])
    return web.json_response(body, status=status)


ROUTES = (
    Route(
        "GET", "/health", health, "Whether the process is alive", "system", (Answer(200, "It is.", _STATUS),), "public"
    ),
    Route(
        "GET",
        "/ready",
        ready,
        "Whether the gateway can serve",
        "system",
        (
            Answer(200, "It can; `degraded`: less well, for the reasons given.", _STATUS),
            Answer(503, "It cannot yet, for the reasons given.", _STATUS),
        ),
        "public",
    ),
)
