"""`kandev-conversation run`: one service in the foreground, as containers and the embedded stack start it."""

import importlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Protocol, cast

import click
import uvloop

from cli.configuration import load_settings
from cli.errors import CommandFailed
from shared.process import until_stopped
from shared.settings import Settings
from shared.telemetry import configure_logging

SERVICES = ("revision", "reader", "gateway")


class _Service(Protocol):
    def serve(self, settings: Settings) -> Coroutine[object, object, None]: ...


@click.command()
@click.argument("service", type=click.Choice(SERVICES))
def run(service: str) -> None:
    """Run one service until it is told to stop (ctrl-c or SIGTERM).

    \b
    revision  the write boundary, and the tracker that turns commits into receipts
    reader    answers reads from one snapshot each
    gateway   HTTP routes and WebSocket

    Settings come from the environment: `kandev-conversation settings`.
    """
    settings = load_settings()
    configure_logging(settings, service)
    # The protocol states what every service's main module offers; an import by name has no type of its own.
    module = cast(_Service, importlib.import_module(f"services.{service}.main"))
    serve: Callable[[], Awaitable[None]] = lambda: module.serve(settings)  # noqa: E731
    try:
        uvloop.run(until_stopped(serve))
    except OSError as error:
        raise CommandFailed(f"{service} ended: {error.strerror or type(error).__name__}.") from error
