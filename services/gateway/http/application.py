"""The aiohttp application: every route in one table."""

from aiohttp import web

from services.gateway.http import (
    boot,
    controls,
    identity,
    lists,
    members,
    messages,
    openapi,
    plugin_conversation,
    plugin_files,
    plugin_user_state,
    plugins,
    prompts,
    socket,
    system,
    users,
    writers,
)
from services.gateway.http.cors import name_origin
from services.gateway.http.guard import admitting, answering, guarded
from services.gateway.http.keys import CONNECTIONS, DOCUMENT, FORMS
from services.gateway.http.routes import Route
from services.gateway.http.watched import name_request, watched
from services.gateway.identity.cookies import DEFAULT_PORT

MAX_BODY_BYTES = 32 << 20
"""Largest body of a request: the longest message, in any alphabet that is common."""

ROUTES: tuple[Route, ...] = (
    *system.ROUTES,
    *openapi.ROUTES,
    *identity.ROUTES,
    *users.ROUTES,
    *socket.ROUTES,
    *boot.ROUTES,
    *lists.ROUTES,
    *members.ROUTES,
    *messages.ROUTES,
    *writers.ROUTES,
    *prompts.ROUTES,
    *plugins.ROUTES,
    *plugin_files.ROUTES,
    *plugin_conversation.ROUTES,
    *plugin_user_state.ROUTES,
)
"""Every route of the gateway, but for those of tests alone. Those of one area stand in its module."""


def build(
    allowed_hosts: frozenset[str] | None, *, port: int = DEFAULT_PORT, test_controls: bool = False
) -> web.Application:
    """The application of one gateway process, without the parts under `keys`: whoever calls this puts them there.

    `allowed_hosts`: see `shared.origins.refusal`. `port`: where it is served. `test_controls`: with the routes by
    which tests make changes.
    """
    routes = (*ROUTES, *controls.ROUTES) if test_controls else ROUTES
    application = web.Application(
        client_max_size=MAX_BODY_BYTES, middlewares=[watched, answering, guarded(allowed_hosts)]
    )
    application.on_shutdown.append(_close_connections)
    application.on_response_prepare.append(_keep_from_caches)
    application.on_response_prepare.append(_end_when_leaving)
    application.on_response_prepare.append(name_origin)
    application.on_response_prepare.append(name_request)
    application[FORMS] = {
        application.router.add_route(route.method, route.path, admitting(route)): route.form for route in routes
    }
    application[DOCUMENT] = openapi.rendered(routes, port)
    return application


async def _keep_from_caches(_: web.Request, response: web.StreamResponse) -> None:
    """What a caller may see, errors included, is nobody else's; a route whose answers may be kept says so."""
    response.headers.setdefault("Cache-Control", "no-store")


async def _end_when_leaving(request: web.Request, response: web.StreamResponse) -> None:
    """The next request on this connection is for another gateway."""
    if request.app[CONNECTIONS].leaving and response.status != 101:
        response.headers["Connection"] = "close"
        response.force_close()


async def _close_connections(application: web.Application) -> None:
    await application[CONNECTIONS].close_all()
