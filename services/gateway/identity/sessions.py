"""Login sessions: what a cookie proves. Its value is stored nowhere, only its SHA-256."""

import hashlib
import secrets

import asyncpg

from services.gateway.identity.accounts import caller_of
from services.gateway.identity.caller import Caller

LIFETIME_HOURS = 720
"""A session that is not used for this long ends; use moves its end on."""

KIND = "session"
"""Begins the credential's name, as identities and control entries carry it."""

_BYTES = 32

# $3: the hash that the password was verified against. Locked: a change of password or a disabling that comes at the
# same time is seen, and ends what it must.
_OPEN = f"""
INSERT INTO gateway.login_sessions (id, user_id, token_hash, expires_at)
SELECT $1, u.id, $4, clock_timestamp() + interval '{LIFETIME_HOURS} hours' FROM gateway.users u
 WHERE u.id = $2 AND u.password_hash = $3 AND u.disabled_at IS NULL FOR SHARE
RETURNING id
"""  # noqa: S608 - a literal
# By the unique index of token_hash.
_FIND = """
SELECT s.id, s.user_id, u.username, u.display_name, u.is_admin,
       s.seen_at < clock_timestamp() - interval '1 minute' AS unseen
  FROM gateway.login_sessions s JOIN gateway.users u ON u.id = s.user_id
 WHERE s.token_hash = $1 AND s.expires_at > clock_timestamp() AND u.disabled_at IS NULL
"""
_TOUCH = f"""
UPDATE gateway.login_sessions
   SET seen_at = clock_timestamp(), expires_at = clock_timestamp() + interval '{LIFETIME_HOURS} hours'
 WHERE id = $1 AND seen_at < clock_timestamp() - interval '1 minute'
RETURNING id
"""  # noqa: S608
_END = "DELETE FROM gateway.login_sessions WHERE id = $1"
_SWEEP = "DELETE FROM gateway.login_sessions WHERE expires_at < clock_timestamp()"


class LoginSessions:
    """The table of login sessions."""

    def __init__(self, database: asyncpg.Pool) -> None:
        self._database = database

    async def open(self, user_id: str, password_hash: str) -> str | None:
        """Begins a session; the cookie's value. None: the account was disabled or given another password just now."""
        value = secrets.token_urlsafe(_BYTES)
        opened = await self._database.fetchval(_OPEN, secrets.token_hex(8), user_id, password_hash, _hash(value))
        return value if opened is not None else None

    async def caller(self, value: str) -> tuple[Caller | None, bool]:
        """Who a cookie stands for, and whether its end was moved on: at most once a minute."""
        row = await self._database.fetchrow(_FIND, _hash(value))
        if row is None:
            return None, False
        moved = row["unseen"] and await self._database.fetchval(_TOUCH, row["id"]) is not None
        return caller_of(row, f"{KIND}:{row['id']}"), moved

    async def end(self, session_id: str) -> None:
        """Ends a session."""
        await self._database.execute(_END, session_id)

    async def sweep(self) -> None:
        """Removes what has expired."""
        await self._database.execute(_SWEEP)


def session_of(credential: str) -> str | None:
    """The session's id, where the credential is one."""
    kind, _, session_id = credential.partition(":")
    return session_id if kind == KIND else None


def credential_of(session_id: str) -> str:
    """The credential's name of a session."""
    return f"{KIND}:{session_id}"


def _hash(value: str) -> bytes:
    return hashlib.sha256(value.encode(errors="surrogatepass")).digest()
