"""The frame of every service process: it runs its parts until it is told to stop, and answers whether it is alive and
ready.
"""

import asyncio
import gc
import logging
import resource
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry

from shared.draining import Draining
from shared.metrics.serving import answering
from shared.origins import host_names, host_refusal
from shared.serving import Runner
from shared.settings import Settings

logger = logging.getLogger(__name__)

Readiness = Callable[[], dict[str, str]]
"""Names each part that is not ready, with what it waits for. Empty: ready. A part named `degraded` serves, but less
well.
"""


def report(readiness: Readiness) -> tuple[int, dict[str, object]]:
    """Status and body of `/ready`: 200 `ready`, 200 `degraded`, 503 `starting` or 503 `draining`, with the reasons."""
    reasons = readiness()
    if not reasons:
        return 200, {"status": "ready"}
    if set(reasons) == {"degraded"}:
        return 200, {"status": "degraded", "reasons": reasons}
    return 503, {"status": "draining" if "draining" in reasons else "starting", "reasons": reasons}


async def serve_health(settings: Settings, readiness: Readiness, registry: CollectorRegistry) -> web.AppRunner:
    """Opens `/health` (the process is alive), `/ready` (it can serve; only for hosts that the gateway serves, too) and
    `/metrics` on the metrics port. The caller cleans the runner up.
    """

    async def health(_: web.Request) -> web.Response:
        return web.json_response({"status": "alive"})

    allowed = host_names(settings.allowed_hosts)

    def refusal(request: web.Request) -> str | None:
        # Any web page can have the browser ask a loopback port under a name of its own, and read the answer.
        return host_refusal(request.headers.get("Host"), allowed)

    async def ready(request: web.Request) -> web.Response:
        if (reason := refusal(request)) is not None:
            return web.json_response({"error": reason}, status=403)
        status, body = report(readiness)
        return web.json_response(body, status=status)

    application = web.Application()
    metrics = answering(registry, refusal)
    application.add_routes([web.get("/health", health), web.get("/ready", ready), web.get("/metrics", metrics)])
    runner = Runner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, settings.metrics_host, settings.metrics_port).start()
    return runner


async def until_stopped(serve: Callable[[], Awaitable[None]], draining: Draining) -> None:
    """Runs `serve` until it returns, or until it is cancelled: by SIGTERM once the process has drained, by SIGINT or a
    second SIGTERM at once. An error of `serve` is raised.
    """
    _keep_what_is_loaded()
    _allow_open_files()
    loop, told, stop = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

    def terminate() -> None:
        (stop if told.is_set() else told).set()

    loop.add_signal_handler(signal.SIGINT, stop.set)
    loop.add_signal_handler(signal.SIGTERM, terminate)
    serving = asyncio.ensure_future(serve())
    await _first(serving, told.wait(), stop.wait())
    if told.is_set() and not serving.done():
        logger.info("draining")
        await _first(serving, draining.run(), stop.wait())
    if not serving.done():
        logger.info("stopping")
        serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    if not serving.cancelled() and (error := serving.exception()) is not None:
        raise error


async def _first(serving: asyncio.Future[None], *others: Coroutine[None, None, object]) -> None:
    """Returns when `serving` or one of the others is done; the others are then cancelled."""
    # Any: nothing is made of what they return.
    waiting: list[asyncio.Future[Any]] = [asyncio.ensure_future(other) for other in others]
    await asyncio.wait({serving, *waiting}, return_when=asyncio.FIRST_COMPLETED)
    for other in waiting:
        other.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


def _allow_open_files() -> None:
    """Lets the process have as many open files as it may give itself: each connection is one, and where nobody has set
    it, the limit is often 1,024.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _keep_what_is_loaded() -> None:
    """Takes modules and models out of the garbage collector's rounds: they stay for as long as the process does, and
    each full round over them holds up everything for 20 to 50 ms.
    """
    gc.collect()
    gc.freeze()
