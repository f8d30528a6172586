"""How a request is given its caller."""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Literal, Protocol

from aiohttp import web

from services.gateway.identity.caller import LOCAL_CALLER, Caller
from services.gateway.identity.cookies import RENEWED, SessionCookie
from services.gateway.identity.sessions import LoginSessions
from services.gateway.identity.tokens import AccessTokens

SOCKET_PATH = "/ws"
"""The one path whose query may name a token: browsers cannot set headers there. Addresses end up in logs and histories,
so no other takes one.
"""

KEPT_SECONDS = 5.0
"""For how long a credential that was looked up is taken on trust: as long as a lost control entry may go unnoticed."""

MOST_KEPT = 10_000
"""Credentials kept at a time; the one that was looked up first makes room."""

Mode = Literal["disabled", "enabled"]


class Authentication(Protocol):
    """One of the modes of authentication."""

    @property
    def mode(self) -> Mode:
        """Its name, as the setting has it."""

    async def caller(self, request: web.Request) -> Caller | None:
        """Who sent the request; `None` when nobody is signed in. Raises RequestFailed when that cannot be told."""


class Disabled:
    """Mode `disabled`: everybody who passes the origin rules is the local user."""

    mode: Mode = "disabled"

    async def caller(self, request: web.Request) -> Caller | None:  # noqa: ARG002 - the other mode looks at it
        """The local user."""
        return LOCAL_CALLER


class Enabled:
    """Mode `enabled`: the session cookie, else a bearer token, else, on the WebSocket alone, a token in the query. What
    proves nothing is passed over.
    """

    mode: Mode = "enabled"

    def __init__(self, cookie: SessionCookie, sessions: LoginSessions, tokens: AccessTokens) -> None:
        self._cookie = cookie
        self._sessions = sessions
        self._tokens = tokens
        self._kept = KeptCallers(time.monotonic)

    async def caller(self, request: web.Request) -> Caller | None:
        """The first that is proven."""
        value = self._cookie.read(request)
        if value is not None and (caller := await self._by_cookie(request, value)) is not None:
            return caller
        token = _bearer(request)
        if token is not None and (caller := await self._by_token(token)) is not None:
            return caller
        named = request.query.get("token") if request.path == SOCKET_PATH else None
        return await self._by_token(named) if named else None

    def forget(self, user: str, credentials: Collection[str]) -> None:
        """These credentials of a user have ended; all of them, where none is named."""
        self._kept.forget(user, credentials)

    async def _by_cookie(self, request: web.Request, value: str) -> Caller | None:
        if (caller := self._kept.get(value)) is not None:
            return caller
        known = self._kept.moment
        caller, renewed = await self._sessions.caller(value)
        if renewed:
            request[RENEWED] = value
        self._kept.put(value, caller, known)
        return caller

    async def _by_token(self, text: str) -> Caller | None:
        if (caller := self._kept.get(text)) is not None:
            return caller
        known = self._kept.moment
        caller = await self._tokens.caller(text)
        self._kept.put(text, caller, known)
        return caller


class KeptCallers:
    """Callers of credentials that were looked up just now. Keys are digests: secrets are not kept. `clock`: seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: OrderedDict[bytes, tuple[Caller, float]] = OrderedDict()
        self.moment = 0
        """Moves on with every ending: what was looked up before it may be out of date."""

    def get(self, secret: str) -> Caller | None:
        """The caller, while it can be trusted."""
        key = _key(secret)
        caller, until = self._kept.get(key, (None, 0.0))
        if caller is not None and self._clock() >= until:
            del self._kept[key]
            return None
        return caller

    def put(self, secret: str, caller: Caller | None, moment: int) -> None:
        """Keeps what was found, unless something has ended since `moment`, when it was asked."""
        if caller is None or moment != self.moment:
            return
        self._kept[_key(secret)] = (caller, self._clock() + KEPT_SECONDS)
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)

    def forget(self, user: str, credentials: Collection[str]) -> None:
        """Drops a user's credentials that have ended; all of them, where none is named."""
        self.moment += 1
        for key, (caller, _) in tuple(self._kept.items()):
            if caller.identity.user == user and (not credentials or caller.identity.credential in credentials):
                del self._kept[key]


def _bearer(request: web.Request) -> str | None:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


def _key(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="surrogatepass")).digest()
