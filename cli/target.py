"""Which gateway a command talks to."""

import os
import re
from pathlib import Path
from urllib.parse import SplitResult, urlsplit, urlunsplit

from cli.errors import CommandFailed
from client.connection import ConnectionFailed
from deploy.local.running import running_stack

URL_VARIABLE = "KANDEV_URL"
TOKEN_VARIABLE = "KANDEV_TOKEN"  # noqa: S105 - the name of a variable
DEFAULT_URL = "http://127.0.0.1:8080"

_SCHEMES = {"http": "http", "https": "https", "ws": "http", "wss": "https"}
_SOCKET_PATH = "/ws"
_TOKEN = re.compile(r"[!-~]+", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9.-]+(:[0-9]{1,5})?", re.ASCII)

TOKEN_HINT = f"where people sign in, set {TOKEN_VARIABLE} to an access token."


def not_reached(error: ConnectionFailed) -> CommandFailed:
    """What a command says when it cannot follow anything at its URL."""
    if error.unauthenticated:
        return CommandFailed(f"{error}. Its host name or identity is not one that the gateway accepts: {TOKEN_HINT}")
    return CommandFailed(f"{error}. Start it (kandev-conversation up), or name it with --url.")


def target_token() -> str | None:
    """The access token that commands prove themselves with: `KANDEV_TOKEN`. Raises `CommandFailed` for what is none."""
    token = os.environ.get(TOKEN_VARIABLE) or None
    if token is not None and not _TOKEN.fullmatch(token):
        raise CommandFailed(f"{TOKEN_VARIABLE} is no access token: `kandev-conversation user token NAME` makes one.")
    return token


def target_url(given: str | None = None) -> str:
    """The gateway's URL: the one given, else `KANDEV_URL`, else the stack that runs on the data folder, else the
    default port. Raises `CommandFailed` for what is no URL.
    """
    if given is not None:
        return gateway_url(given, "--url")
    if named := os.environ.get(URL_VARIABLE):
        return gateway_url(named, URL_VARIABLE)
    stack = running_stack(Path(os.environ.get("KANDEV_DATA_DIR") or ".data"))
    return DEFAULT_URL if stack is None else stack.url


def gateway_url(text: str, source: str) -> str:
    """The address of the HTTP routes; that of the WebSocket names the same gateway. `source`: where the text is from.
    Raises `CommandFailed` for what is no URL.
    """
    scheme, separator, rest = text.partition("://")
    if not separator:
        # A host, and perhaps a port: what else stands there may be anything, a password included.
        example = f"http://{text}" if _HOST.fullmatch(text) else f"it as in {DEFAULT_URL}"
        raise CommandFailed(f"{source} is no URL: write {example}.")
    plain = _SCHEMES.get(scheme.lower())
    parts = _split(text)
    if plain is None or parts is None or not rest.isprintable() or " " in rest:
        raise CommandFailed(f"{source} is no URL of a gateway: write it as in {DEFAULT_URL}.")
    path = parts.path.rstrip("/")
    if scheme.lower().startswith("ws"):
        path = path.removesuffix(_SOCKET_PATH)
    return urlunsplit((plain, parts.netloc, path, "", ""))


def _split(text: str) -> SplitResult | None:
    try:
        parts = urlsplit(text)
        usable = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if usable else None
