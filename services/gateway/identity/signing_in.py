"""Everything that mode `enabled` has: accounts with their credentials, and what signing in with a password takes."""

from dataclasses import dataclass

import asyncpg
from aiohttp import web

from services.gateway.control import Control
from services.gateway.identity.accounts import Accounts, Known
from services.gateway.identity.attempts import Attempt, LoginAttempts
from services.gateway.identity.authentication import Enabled
from services.gateway.identity.cookies import SessionCookie
from services.gateway.identity.passwords import Passwords, is_outdated
from services.gateway.identity.sessions import LoginSessions
from services.gateway.identity.tokens import AccessTokens
from services.gateway.identity.watch import CredentialWatch
from services.gateway.websocket.registry import Connections
from shared.contracts.errors import RequestFailed
from shared.settings import Settings


@dataclass(frozen=True, slots=True)
class Opened:
    """A session that was begun: whose it is, and its cookie's value."""

    user_id: str
    value: str


@dataclass(frozen=True, slots=True)
class SigningIn:
    """The parts that the account routes work with."""

    authentication: Enabled
    accounts: Accounts
    sessions: LoginSessions
    tokens: AccessTokens
    attempts: LoginAttempts
    passwords: Passwords
    cookie: SessionCookie
    watch: CredentialWatch
    behind_proxy: bool

    async def sign_in(self, username: str, password: str, address: str) -> Opened:
        """Begins a session. Raises RequestFailed: `unauthenticated`, in the same words and for the same work whatever
        was wrong, or `limit_exceeded`.
        """
        known, attempt = await self._compared(username, password, address)
        value = None if known is None else await self._opened(known, password)
        if known is None or value is None:
            raise RequestFailed("unauthenticated", "wrong username or password")
        await attempt.succeeded()
        return Opened(known.id, value)

    async def confirm(self, username: str, password: str, address: str) -> None:
        """Has a signed-in user prove who they are: guesses count like sign-ins. Raises RequestFailed: `forbidden` or
        `limit_exceeded`.
        """
        known, attempt = await self._compared(username, password, address)
        if known is None:
            raise RequestFailed("forbidden", "the current password is another one")
        await attempt.succeeded()

    def address(self, request: web.Request) -> str:
        """Where a request comes from: the peer, or, behind a proxy, whom that one names last."""
        forwarded = request.headers.get("X-Forwarded-For", "") if self.behind_proxy else ""
        return (forwarded.rpartition(",")[2].strip() or request.remote or "")[:100]

    async def _compared(self, username: str, password: str, address: str) -> tuple[Known | None, Attempt]:
        attempt = await self.attempts.begin(username, address)
        known = await self.accounts.known(username)
        matches = await self.passwords.matches(None if known is None else known.password_hash, password)
        return (known if matches else None), attempt

    async def _opened(self, known: Known, password: str) -> str | None:
        stored = known.password_hash or ""
        if is_outdated(stored):
            renewed = await self.passwords.hashed(password)
            if await self.accounts.replace_hash(known.id, stored, renewed):
                stored = renewed
        return await self.sessions.open(known.id, stored)


def enabled(settings: Settings, database: asyncpg.Pool, connections: Connections, control: Control) -> SigningIn:
    """The parts of mode `enabled` at one gateway."""
    cookie = SessionCookie(settings.port, behind_proxy=settings.behind_proxy)
    sessions, tokens, attempts = LoginSessions(database), AccessTokens(database), LoginAttempts(database)
    authentication = Enabled(cookie, sessions, tokens)
    return SigningIn(
        authentication=authentication,
        accounts=Accounts(database),
        sessions=sessions,
        tokens=tokens,
        attempts=attempts,
        passwords=Passwords(),
        cookie=cookie,
        watch=CredentialWatch(database, authentication, connections, control, (sessions.sweep, attempts.sweep)),
        behind_proxy=settings.behind_proxy,
    )
