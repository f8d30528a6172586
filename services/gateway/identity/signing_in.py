"""Everything that mode `enabled` has: accounts with their credentials, and what signing in with a password takes."""

from dataclasses import dataclass

import asyncpg
from aiohttp import web

from services.gateway.control import Control
from services.gateway.identity.accounts import Accounts, Known
from services.gateway.identity.addresses import forwarded_for, sender
from services.gateway.identity.attempts import Attempt, LoginAttempts
from services.gateway.identity.authentication import Enabled
from services.gateway.identity.caller import Caller
from services.gateway.identity.cookies import SessionCookie
from services.gateway.identity.passwords import Passwords, is_outdated
from services.gateway.identity.sessions import LoginSessions, session_of
from services.gateway.identity.tokens import AccessTokens, token_of
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
            await attempt.failed()
            raise RequestFailed("unauthenticated", "wrong username or password")
        await attempt.succeeded()
        return Opened(known.id, value)

    async def change_password(self, caller: Caller, current: str, wanted: str, address: str) -> tuple[str, ...]:
        """Replaces the caller's password, once they have proved the present one: guesses count like sign-ins. Returns
        the ids of their other login sessions, which end by it. Raises RequestFailed: `forbidden`, `limit_exceeded`,
        `conflict` where an administrator was quicker, or `invalid_query` for what cannot be a password.
        """
        known, attempt = await self._compared(caller.username, current, address)
        if known is None or known.password_hash is None:
            await attempt.failed()
            raise RequestFailed("forbidden", "the current password is another one")
        await attempt.succeeded()
        return await self.accounts.replace_password(
            caller.identity.user,
            known.password_hash,
            await self.passwords.hashed(wanted),
            session=session_of(caller.identity.credential) or "",
            token=token_of(caller.identity.credential) or "",
        )

    def address(self, request: web.Request) -> str:
        """Who counts as the sender of a request: the peer, or, behind a proxy, whom that one names."""
        forwarded = forwarded_for(request.headers.getall("X-Forwarded-For", [])) if self.behind_proxy else ""
        return sender(forwarded or request.remote or "")

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
