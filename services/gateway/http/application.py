"""The aiohttp application: every route in one table."""

from aiohttp import web

from services.gateway.http import lists, messages, socket, system, writers
from services.gateway.http.guard import admitting, answering, guarded
from services.gateway.http.keys import CONNECTIONS
from services.gateway.http.routes import Route

MAX_BODY_BYTES = 32 << 20
"""Largest body of a request: the longest message, in any alphabet that is common."""

ROUTES: tuple[Route, ...] = (
    *system.ROUTES,
    *socket.ROUTES,
    *lists.ROUTES,
    *messages.ROUTES,
    *writers.ROUTES,
)
"""Every route of the gateway. Those of one area stand in its module."""


def build(allowed_hosts: frozenset[str]) -> web.Application:
    """The application of one gateway process, without the parts under `keys`: whoever calls this puts them there."""
    application = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[answering, guarded(allowed_hosts)])
    application.on_shutdown.append(_close_connections)
    for route in ROUTES:
        application.router.add_route(route.method, route.path, admitting(route))
    return application


async def _close_connections(application: web.Application) -> None:
    await application[CONNECTIONS].close_all()
