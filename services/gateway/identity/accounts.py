"""Accounts: who may sign in, and who administers."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import asyncpg

from services.gateway.identity.caller import Caller
from services.gateway.identity.texts import composed, username_key
from services.gateway.ids import named
from shared.contracts.errors import RequestFailed
from shared.contracts.identity import Identity

MOST_NAME_CHARACTERS = 100

ADMINISTRATED = "SELECT EXISTS (SELECT FROM gateway.users WHERE is_admin AND disabled_at IS NULL)"
"""Whether anybody may administer."""

_NO_USER = "there is no such user"

_COLUMNS = "id, username, display_name, is_admin, disabled_at, created_at"

# By users_username_key; the others by primary key.
_NAMED = "SELECT id, password_hash, disabled_at FROM gateway.users WHERE username_key = $1"
_FOUND = "SELECT id FROM gateway.users WHERE id = $1 OR username_key = $2 ORDER BY id = $1 DESC LIMIT 1"
_ADD = f"""
INSERT INTO gateway.users (id, username, username_key, display_name, password_hash, is_admin)
VALUES ($1, $2, $3, $4, $5, $6)
RETURNING {_COLUMNS}
"""  # noqa: S608 - literals
_ALL = f"SELECT {_COLUMNS} FROM gateway.users ORDER BY username_key"  # noqa: S608
_LOCK_ADMINISTRATORS = (
    "SELECT id FROM gateway.users WHERE is_admin AND disabled_at IS NULL ORDER BY id FOR NO KEY UPDATE"
)
_CHANGE = f"""
UPDATE gateway.users
   SET display_name = coalesce($2, display_name),
       is_admin = coalesce($3, is_admin),
       disabled_at = CASE WHEN $4::boolean IS NULL THEN disabled_at
                          WHEN $4 THEN coalesce(disabled_at, clock_timestamp()) END,
       password_hash = coalesce($5, password_hash)
 WHERE id = $1
RETURNING {_COLUMNS}
"""  # noqa: S608
_END_SESSIONS = "DELETE FROM gateway.login_sessions WHERE user_id = $1 AND id <> $2 RETURNING id"
_REPLACE_HASH = "UPDATE gateway.users SET password_hash = $3 WHERE id = $1 AND password_hash = $2 RETURNING id"
# $2: the hash that the password was verified against; $4 and $5: the login session or token that asks. Another change
# of the account that comes at the same time locks its row: then this one is decided again on what it left.
_REPLACE_VERIFIED = """
UPDATE gateway.users u SET password_hash = $3
 WHERE u.id = $1 AND u.password_hash = $2 AND u.disabled_at IS NULL
   AND (EXISTS (SELECT 1 FROM gateway.login_sessions s
                 WHERE s.id = $4 AND s.user_id = u.id AND s.expires_at > clock_timestamp())
        OR EXISTS (SELECT 1 FROM gateway.access_tokens t
                    WHERE t.id = $5 AND t.user_id = u.id
                      AND (t.expires_at IS NULL OR t.expires_at > clock_timestamp())))
RETURNING u.id
"""
_NAMES = "SELECT id, username, display_name FROM gateway.users WHERE id = ANY($1::text[])"


@dataclass(frozen=True, slots=True)
class Account:
    """One account. Times in microseconds since 1970."""

    id: str
    username: str
    display_name: str
    administrator: bool
    disabled: bool
    created_at: int


@dataclass(frozen=True, slots=True)
class Known:
    """What a sign-in compares with. `password_hash` None: no password signs in."""

    id: str
    password_hash: str | None


@dataclass(frozen=True, slots=True)
class Changes:
    """What to change of an account; None leaves a field as it is."""

    display_name: str | None = None
    administrator: bool | None = None
    disabled: bool | None = None
    password_hash: str | None = None


class Accounts:
    """The table of accounts."""

    def __init__(self, database: asyncpg.Pool) -> None:
        self._database = database

    async def add(
        self, username: str, password_hash: str, *, display_name: str = "", administrator: bool = False
    ) -> Account:
        """Adds an account. Raises RequestFailed: `invalid_query`, or `conflict` where the name is taken."""
        name = usable_username(username)
        user_id = str(uuid.uuid4())
        shown = usable_display_name(display_name)
        try:
            row = await self._database.fetchrow(
                _ADD, user_id, name, username_key(name), shown, password_hash, administrator
            )
        except asyncpg.UniqueViolationError:
            raise RequestFailed("conflict", "this username is taken") from None
        return _account(row)

    async def all(self) -> tuple[Account, ...]:
        """Every account, by username."""
        return tuple(_account(row) for row in await self._database.fetch(_ALL))

    async def known(self, username: str) -> Known | None:
        """The account of a name, however it is capitalised and composed, if it may sign in."""
        row = await self._database.fetchrow(_NAMED, username_key(username))
        return None if row is None or row["disabled_at"] is not None else Known(row["id"], row["password_hash"])

    async def id_of(self, username: str) -> str:
        """The id of a name, disabled or not. Raises RequestFailed `not_found`."""
        row = await self._database.fetchrow(_NAMED, username_key(username))
        if row is None:
            raise no_such_user()
        return str(row["id"])

    async def found(self, named: str) -> str | None:
        """The id of the account, disabled or not, with this id; else of the one with this username."""
        found: str | None = await self._database.fetchval(_FOUND, named, username_key(named))
        return found

    async def administrated(self) -> bool:
        """Whether anybody may administer."""
        return bool(await self._database.fetchval(ADMINISTRATED))

    async def names(self, user_ids: tuple[str, ...]) -> Mapping[str, tuple[str, str]]:
        """Username and display name of those ids that are accounts."""
        rows = await self._database.fetch(_NAMES, list(user_ids))
        return {row["id"]: (row["username"], row["display_name"]) for row in rows}

    async def change(self, user_id: str, changes: Changes) -> tuple[Account, tuple[str, ...]]:
        """Changes an account; returns it with the ids of the login sessions that ended by it: all of one that is
        disabled or has another password.

        Raises RequestFailed: `not_found`, or `conflict` where no active administrator would be left. Two changes at a
        time wait for each other there: what decides is locked.
        """
        async with self._database.acquire() as connection, connection.transaction(isolation="read_committed"):
            if changes.disabled or changes.administrator is False:
                active = await connection.fetch(_LOCK_ADMINISTRATORS)
                if [row["id"] for row in active] == [user_id]:
                    raise RequestFailed("conflict", "this is the last active administrator: make another one first")
            row = await connection.fetchrow(
                _CHANGE,
                user_id,
                None if changes.display_name is None else usable_display_name(changes.display_name),
                changes.administrator,
                changes.disabled,
                changes.password_hash,
            )
            if row is None:
                raise no_such_user()
            ended = []
            if changes.disabled or changes.password_hash is not None:
                ended = await connection.fetch(_END_SESSIONS, user_id, "")
        return _account(row), tuple(found["id"] for found in ended)

    async def replace_password(
        self, user_id: str, verified: str, password_hash: str, *, session: str = "", token: str = ""
    ) -> tuple[str, ...]:
        """Gives a user another password, as the login session or token asks that proved the one before against the hash
        `verified`; returns the ids of the other login sessions, which end by it.

        Raises RequestFailed `conflict` where that is not the password any more, or what asks has ended: an
        administrator's change that came between stands.
        """
        async with self._database.acquire() as connection, connection.transaction(isolation="read_committed"):
            arguments = (user_id, verified, password_hash, session, token)
            if await connection.fetchval(_REPLACE_VERIFIED, *arguments) is None:
                raise RequestFailed("conflict", "the account was changed meanwhile: sign in and try again")
            ended = await connection.fetch(_END_SESSIONS, user_id, session)
        return tuple(found["id"] for found in ended)

    async def replace_hash(self, user_id: str, before: str, after: str) -> bool:
        """Stores the same password under other parameters, unless it was changed meanwhile."""
        return await self._database.fetchval(_REPLACE_HASH, user_id, before, after) is not None


def usable_username(username: str) -> str:
    """The name as it is stored. Raises RequestFailed `invalid_query`."""
    name = composed(username.strip())
    if not 1 <= len(name) <= MOST_NAME_CHARACTERS or not name.isprintable():
        raise RequestFailed(
            "invalid_query", f"a username has 1 to {MOST_NAME_CHARACTERS} characters, none of them a control character"
        )
    return name


def usable_display_name(text: str) -> str:
    """The name as it is stored; it may be empty. Raises RequestFailed `invalid_query`."""
    name = composed(text.strip())
    if len(name) > MOST_NAME_CHARACTERS or (name and not name.isprintable()):
        raise RequestFailed(
            "invalid_query", f"a display name has at most {MOST_NAME_CHARACTERS} characters, none a control character"
        )
    return name


def user_named(user_id: str) -> str:
    """The id, if it can be one. Raises RequestFailed `not_found`."""
    return named(user_id, _NO_USER)


def no_such_user() -> RequestFailed:
    """What is answered where an account is not there."""
    return RequestFailed("not_found", _NO_USER)


# Any: a row of asyncpg, which has no types.
def caller_of(row: Mapping[str, Any], credential: str) -> Caller:
    """Who a credential's row, with its account's columns, stands for."""
    return Caller(
        Identity(user=row["user_id"], credential=credential),
        username=row["username"],
        display_name=row["display_name"],
        administrator=row["is_admin"],
    )


def _account(row: Mapping[str, Any]) -> Account:
    return Account(
        id=row["id"],
        username=row["username"],
        display_name=row["display_name"],
        administrator=row["is_admin"],
        disabled=row["disabled_at"] is not None,
        created_at=row["created_at"],
    )
