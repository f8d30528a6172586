"""How a request is given its caller."""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import Literal, Protocol

from aiohttp import web

from services.gateway.identity import sessions, tokens
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

    def __init__(self, cookie: SessionCookie, login_sessions: LoginSessions, access_tokens: AccessTokens) -> None:
        self._cookie = cookie
        self._sessions = login_sessions
        self._tokens = access_tokens
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
        """These credentials of a user have ended, or their account has changed; all of them, where none is named."""
        self._kept.forget(user, credentials)

    async def _by_cookie(self, request: web.Request, value: str) -> Caller | None:
        async def look_up() -> Caller | None:
            caller, renewed = await self._sessions.caller(value)
            if renewed:
                request[RENEWED] = value
            return caller

        return await self._kept.caller(sessions.KIND, value, look_up)

    async def _by_token(self, text: str) -> Caller | None:
        return await self._kept.caller(tokens.KIND, text, lambda: self._tokens.caller(text))


class KeptCallers:
    """Callers of credentials that were looked up just now. Keys are digests: secrets are not kept. `clock`: seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: OrderedDict[bytes, tuple[Caller, float]] = OrderedDict()
        self._under_way: set[_LookUp] = set()

    async def caller(self, kind: str, secret: str, look_up: Callable[[], Awaitable[Caller | None]]) -> Caller | None:
        """Who a credential of this kind stands for. One that is not kept is looked up, again if an ending of it was
        heard meanwhile: whoever is returned was somebody after the last one that was.
        """
        key = _key(kind, secret)
        caller, until = self._kept.get(key, (None, 0.0))
        if caller is not None and self._clock() < until:
            return caller
        self._kept.pop(key, None)
        while True:
            asked = _LookUp()
            self._under_way.add(asked)
            try:
                caller = await look_up()
            finally:
                self._under_way.remove(asked)
            if caller is None:
                return None
            if not asked.is_outdated(caller):
                self._keep(key, caller)
                return caller

    def forget(self, user: str, credentials: Collection[str]) -> None:
        """Drops a user's credentials that have ended, or whose account has changed; all, where none is named."""
        for asked in self._under_way:
            asked.endings.append((user, credentials))
        for key, (caller, _) in tuple(self._kept.items()):
            if _concerns(caller, user, credentials):
                del self._kept[key]

    def _keep(self, key: bytes, caller: Caller) -> None:
        self._kept[key] = (caller, self._clock() + KEPT_SECONDS)
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)


@dataclass(slots=True, eq=False)
class _LookUp:
    """A look-up that is under way, and the endings that were heard since it began."""

    endings: list[tuple[str, Collection[str]]] = field(default_factory=list)

    def is_outdated(self, caller: Caller) -> bool:
        return any(_concerns(caller, user, credentials) for user, credentials in self.endings)


def _concerns(caller: Caller, user: str, credentials: Collection[str]) -> bool:
    return caller.identity.user == user and (not credentials or caller.identity.credential in credentials)


def _bearer(request: web.Request) -> str | None:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


def _key(kind: str, secret: str) -> bytes:
    """A cookie's value proves nothing as a token, nor the other way round."""
    return hashlib.sha256(f"{kind}:{secret}".encode(errors="surrogatepass")).digest()
