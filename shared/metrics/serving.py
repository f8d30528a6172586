"""`/metrics` of a process."""

from collections.abc import Awaitable, Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from shared.origins import is_address


def answering(
    registry: CollectorRegistry, refusal: Callable[[web.Request], str | None]
) -> Callable[[web.Request], Awaitable[web.Response]]:
    """The handler. `refusal`: why a request for the reasons of `/ready` would be refused.

    An address is answered whatever it is: Prometheus asks each process by its own, and no web page can have the browser
    name an address but the one that the page itself came from.
    """

    async def handle(request: web.Request) -> web.Response:
        if not is_address(request.headers.get("Host")) and (reason := refusal(request)) is not None:
            return web.json_response({"error": reason}, status=403)
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return handle
