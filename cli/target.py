"""Which gateway a command talks to."""

import os
from pathlib import Path

from cli.errors import CommandFailed
from client.connection import ConnectionFailed
from deploy.local.running import running_stack

URL_VARIABLE = "KANDEV_URL"
DEFAULT_URL = "http://127.0.0.1:8080"


def not_reached(error: ConnectionFailed) -> CommandFailed:
    """What a command says when it cannot follow anything at its URL."""
    if error.unauthenticated:
        return CommandFailed(f"{error}. Its host name or identity is not one that the gateway accepts.")
    return CommandFailed(f"{error}. Start it (kandev-conversation up), or name it with --url.")


def target_url(given: str | None = None) -> str:
    """The gateway's URL: the one given, else `KANDEV_URL`, else the stack that runs on the data folder, else the
    default port.
    """
    if given or os.environ.get(URL_VARIABLE):
        return given or os.environ[URL_VARIABLE]
    stack = running_stack(Path(os.environ.get("KANDEV_DATA_DIR", ".data")))
    return DEFAULT_URL if stack is None else stack.url
