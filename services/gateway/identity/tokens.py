"""Personal access tokens: `kandev_pat_<8 hexadecimal digits>_<secret>` (`services.gateway.token_text`)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import asyncpg

from services.gateway.identity.accounts import MOST_NAME_CHARACTERS, caller_of
from services.gateway.identity.caller import Caller
from services.gateway.token_text import is_token_id, new_token, token_from
from shared.contracts.errors import RequestFailed

PREFIX = "kandev_pat_"

KIND = "token"
"""Begins the credential's name, as identities and control entries carry it."""

LONGEST_DAYS = 3650
"""Longest life of a token that ends at all."""

MOST_TOKENS = 100
"""Tokens of one user: more than anyone tells apart."""

_COLUMNS = "id, user_id, name, created_at, expires_at, last_used_at"
_ADD = f"""
INSERT INTO gateway.access_tokens (id, user_id, name, secret_hash, expires_at)
VALUES ($1, $2, $3, $4, clock_timestamp() + make_interval(days => $5)) ON CONFLICT (id) DO NOTHING
RETURNING {_COLUMNS}
"""  # noqa: S608 - literals
# By access_tokens_user.
_OWN = f"SELECT {_COLUMNS} FROM gateway.access_tokens WHERE user_id = $1 ORDER BY created_at, id"  # noqa: S608
# The tokens of one user are made one after the other: what is counted is what there is.
_LOCK = "SELECT id FROM gateway.users WHERE id = $1 FOR NO KEY UPDATE"
_COUNT = "SELECT count(*) FROM gateway.access_tokens WHERE user_id = $1"
# By primary key.
_FIND = """
SELECT t.secret_hash, t.user_id, u.username, u.display_name, u.is_admin,
       coalesce(t.last_used_at < clock_timestamp() - interval '1 minute', true) AS unseen
  FROM gateway.access_tokens t JOIN gateway.users u ON u.id = t.user_id
 WHERE t.id = $1 AND (t.expires_at IS NULL OR t.expires_at > clock_timestamp()) AND u.disabled_at IS NULL
"""
_TOUCH = """
UPDATE gateway.access_tokens SET last_used_at = clock_timestamp()
 WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < clock_timestamp() - interval '1 minute')
"""
_REVOKE = """
DELETE FROM gateway.access_tokens WHERE id = $1 AND ($2::text IS NULL OR user_id = $2) RETURNING user_id
"""


@dataclass(frozen=True, slots=True)
class AccessToken:
    """What is known of a token. Times in microseconds since 1970."""

    id: str
    name: str
    created_at: int
    expires_at: int | None
    last_used_at: int | None


class AccessTokens:
    """The table of tokens."""

    def __init__(self, database: asyncpg.Pool) -> None:
        self._database = database

    async def add(self, user_id: str, name: str = "", days: int | None = None) -> tuple[AccessToken, str]:
        """Makes a token; it, and its text, which nobody can read again. `days` None: until it is revoked.

        Raises RequestFailed: `invalid_query`, or `conflict` where the user has too many. The user is there.
        """
        shown = _usable_name(name)
        if days is not None and not 1 <= days <= LONGEST_DAYS:
            raise RequestFailed("invalid_query", f"a token ends after 1 to {LONGEST_DAYS} days, or never")
        async with self._database.acquire() as connection, connection.transaction(isolation="read_committed"):
            await connection.execute(_LOCK, user_id)
            if await connection.fetchval(_COUNT, user_id) >= MOST_TOKENS:
                raise RequestFailed("conflict", f"a user has at most {MOST_TOKENS} tokens: revoke one first")
            while True:
                token = new_token(PREFIX)
                row = await connection.fetchrow(_ADD, token.id, user_id, shown, token.secret_hash, days)
                if row is not None:
                    return _token(row), str(token)

    async def of(self, user_id: str) -> tuple[AccessToken, ...]:
        """A user's tokens, oldest first; also those that have expired."""
        return tuple(_token(row) for row in await self._database.fetch(_OWN, user_id))

    async def caller(self, text: str) -> Caller | None:
        """Who a token stands for; a token that is in use is noted as used at most once a minute."""
        token = token_from(PREFIX, text)
        if token is None:
            return None
        row = await self._database.fetchrow(_FIND, token.id)
        if not token.is_of(None if row is None else row["secret_hash"]):
            return None
        if row["unseen"]:
            await self._database.execute(_TOUCH, token.id)
        return caller_of(row, credential_of(token.id))

    async def revoke(self, token_id: str, user_id: str | None = None) -> str:
        """Ends a token; of this user, where one is named. Returns whose it was; raises RequestFailed `not_found`."""
        owner = None
        if is_token_id(token_id):
            owner = await self._database.fetchval(_REVOKE, token_id, user_id)
        if owner is None:
            raise RequestFailed("not_found", "there is no such token")
        return str(owner)


def token_of(credential: str) -> str | None:
    """The token's id, where the credential is one."""
    kind, _, token_id = credential.partition(":")
    return token_id if kind == KIND else None


def credential_of(token_id: str) -> str:
    """The credential's name of a token."""
    return f"{KIND}:{token_id}"


def _usable_name(text: str) -> str:
    name = text.strip()
    if len(name) > MOST_NAME_CHARACTERS or (name and not name.isprintable()):
        raise RequestFailed(
            "invalid_query", f"a token's name has at most {MOST_NAME_CHARACTERS} characters, none a control character"
        )
    return name


# Any: a row of asyncpg, which has no types.
def _token(row: Mapping[str, Any]) -> AccessToken:
    return AccessToken(row["id"], row["name"], row["created_at"], row["expires_at"], row["last_used_at"])
