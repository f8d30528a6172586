"""`kandev-conversation run`: one service in the foreground, as containers and the embedded stack start it."""

import importlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Protocol, cast

import click
import uvloop

from cli.configuration import load_settings
from cli.errors import CommandFailed
from cli.listening import check_places, places_of
from shared.draining import Draining
from shared.process import until_stopped
from shared.reasons import reason
from shared.settings import Settings
from shared.telemetry import configure_logging

SERVICES = ("revision", "reader", "gateway")


class _Service(Protocol):
    def serve(self, settings: Settings, draining: Draining) -> Coroutine[object, object, None]: ...


@click.command()
@click.argument("service", type=click.Choice(SERVICES))
def run(service: str) -> None:
    """Run one service until it is told to stop: by ctrl-c at once, by SIGTERM when it has drained.

    \b
    revision  the write boundary, and the tracker that turns commits into receipts
    reader    answers reads from one snapshot each
    gateway   HTTP routes, WebSocket and Host RPC

    Settings and addresses come from the environment alone (`kandev-conversation settings` lists them), while all other
    commands use the stack that runs here when the environment names no address.
    """
    settings = load_settings()
    check_places(places_of(service, settings))
    configure_logging(settings, service)
    # The protocol states what every service's main module offers; an import by name has no type of its own.
    module = cast(_Service, importlib.import_module(f"services.{service}.main"))
    draining = Draining.of(settings)
    serve: Callable[[], Awaitable[None]] = lambda: module.serve(settings, draining)  # noqa: E731
    try:
        uvloop.run(until_stopped(serve, draining))
    except OSError as error:
        raise CommandFailed(f"{service} ended: {reason(error)}.") from error
