"""Which gateway a command talks to."""

import os
import re
from pathlib import Path
from urllib.parse import SplitResult, urlsplit, urlunsplit

from cli.errors import CommandFailed
from client.connection import ConnectionFailed
from client.events import CloseReason
from deploy.local.running import running_stack

URL_VARIABLE = "KANDEV_URL"
TOKEN_VARIABLE = "KANDEV_TOKEN"  # noqa: S105 - the name of a variable
DEFAULT_URL = "http://127.0.0.1:8080"

_SCHEMES = {"http": "http", "https": "https", "ws": "http", "wss": "https"}
_SOCKET_PATH = "/ws"
_TOKEN = re.compile(r"[!-~]+", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9.-]+(:[0-9]{1,5})?", re.ASCII)


def not_reached(error: ConnectionFailed) -> CommandFailed:
    """What a command says when it cannot follow anything at its URL."""
    match error.refused:
        case 401:
            return CommandFailed(identity_refused())
        case 403:
            return CommandFailed(f"{error}. Name a host that the gateway knows: KANDEV_ALLOWED_HOSTS there lists more.")
        case None:
            return _not_there(error)


def not_followed(session: str, reason: CloseReason) -> CommandFailed:
    """What a command says when it was never shown a session, as its scope closed for this reason."""
    match reason:
        case CloseReason.UNAUTHENTICATED:
            return CommandFailed(identity_refused())
        case CloseReason.REFUSED:
            return CommandFailed(f"The gateway refuses to have session {session} followed.")
        case CloseReason.NOT_FOUND | CloseReason.ENDED | CloseReason.REMOVED:
            return CommandFailed(f"There is no session {session}, or it is not yours to read.")


def identity_refused() -> str:
    """What a command says when the gateway answers that nobody is signed in."""
    if os.environ.get(TOKEN_VARIABLE):
        return (
            f"The gateway does not take this identity: the access token in {TOKEN_VARIABLE} is unknown, revoked or "
            "expired, or its user is disabled."
        )
    return f"People sign in at this gateway: set {TOKEN_VARIABLE} to an access token."


def identity_ended() -> str:
    """What a command says when the identity was taken before."""
    return (
        f"the access token in {TOKEN_VARIABLE} is no longer valid."
        if os.environ.get(TOKEN_VARIABLE)
        else "the gateway asks who you are now."
    )


def _not_there(error: ConnectionFailed) -> CommandFailed:
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
