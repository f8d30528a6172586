"""What plugins keep for each user: rows of `gateway.plugin_user_state`, and the notification of a change."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import asyncpg
import orjson

from services.gateway.websocket.registry import Connections
from shared.contracts.control import UserStateChanged

MOST_ENTRIES = 1000
"""Of one plugin for one user, in one scope."""

MOST_BYTES = 4 << 20
"""Of one plugin for one user, in all scopes: values with their keys and what each costs besides. No list is longer."""

ENTRY_BYTES = 100
"""What an entry counts besides its value, its key and its scope's id."""

LISTS_AT_ONCE = 8
"""Each holds all values of a scope in memory."""

ACTION = "plugin.user-state.updated"


@dataclass(frozen=True, slots=True)
class Place:
    """Where entries are kept: those of one plugin for one user, in one scope."""

    plugin_id: str
    user: str
    scope: str
    scope_id: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A kept value, as JSON text. `updated_at`: microseconds since 1970; for one key each is later than the last."""

    key: str
    value: str
    updated_at: int


class Stale(Exception):
    """The entry was changed since the moment that the writer has seen, or is gone."""


class Full(Exception):
    """There are as many entries in this place as there may be."""


class TooLarge(Exception):
    """The plugin would keep more bytes for the user than it may."""


class PluginGone(Exception):
    """The plugin was removed meanwhile."""


_PLACE = "plugin_id = $1 AND user_id = $2 AND scope = $3 AND scope_id = $4"
_ENTRY = f"SELECT key, value::text, updated_at FROM gateway.plugin_user_state WHERE {_PLACE}"  # noqa: S608 - no input
_GET = _ENTRY + " AND key = $5"
# The order of bytes: the same in every database, whatever its collation.
_LIST = _ENTRY + ' ORDER BY key COLLATE "C"'

# One writer at a time of what a plugin keeps for a user: each sees what the others have written.
_ALONE = "SELECT pg_advisory_xact_lock(hashtextextended(jsonb_build_array($1::text, $2::text)::text, 7205))"

# Along the primary key: the rows of one plugin and user stand together.
_COST = f"octet_length(value::text) + octet_length(key) + octet_length(scope_id) + {ENTRY_BYTES}"
_SPACE = f"""
SELECT count(*) FILTER (WHERE scope = $3 AND scope_id = $4) AS entries,
       count(*) FILTER (WHERE scope = $3 AND scope_id = $4 AND key = $5) AS replaced,
       coalesce(sum({_COST}), 0)::bigint AS bytes,
       coalesce(sum({_COST}) FILTER (WHERE scope = $3 AND scope_id = $4 AND key = $5), 0)::bigint AS freed
  FROM gateway.plugin_user_state WHERE plugin_id = $1 AND user_id = $2
"""  # noqa: S608 - no input

_LATER = "greatest(clock_timestamp(), s.updated_at + interval '1 microsecond')"
_PUT = f"""
INSERT INTO gateway.plugin_user_state AS s (plugin_id, user_id, scope, scope_id, key, value)
VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (plugin_id, user_id, scope, scope_id, key) DO UPDATE SET value = excluded.value, updated_at = {_LATER}
RETURNING updated_at
"""  # noqa: S608 - no input
_REPLACE = f"""
UPDATE gateway.plugin_user_state AS s SET value = $6, updated_at = {_LATER}
 WHERE {_PLACE} AND key = $5 AND s.updated_at <= $7
RETURNING updated_at
"""  # noqa: S608 - no input
_DELETE = f"""
DELETE FROM gateway.plugin_user_state AS s WHERE {_PLACE} AND key = $5 RETURNING {_LATER}
"""  # noqa: S608 - no input


class UserState:
    """Reads and changes entries. Raises what asyncpg raises."""

    def __init__(self, database: asyncpg.Pool) -> None:
        self._database = database
        self._listing = asyncio.Semaphore(LISTS_AT_ONCE)

    async def get(self, place: Place, key: str) -> Entry | None:
        """One entry."""
        row = await self._database.fetchrow(_GET, *_arguments(place), key)
        return None if row is None else Entry(**row)

    @asynccontextmanager
    async def listed(self, place: Place) -> AsyncIterator[list[Entry]]:
        """Every entry of a place, by key. Few lists are held at once: let go of it soon."""
        async with self._listing:
            yield [Entry(**row) for row in await self._database.fetch(_LIST, *_arguments(place))]

    async def put(self, place: Place, key: str, value: str, unmodified_since: int | None) -> int:
        """Keeps a value; the time of the change. With `unmodified_since` only over an entry that is not younger: raises
        Stale otherwise. Raises Full, TooLarge, PluginGone.
        """
        async with self._database.acquire() as connection, connection.transaction():
            await connection.execute(_ALONE, place.plugin_id, place.user)
            await _expect_space(connection, place, key, value)
            if unmodified_since is None:
                try:
                    return int(await connection.fetchval(_PUT, *_arguments(place), key, value))
                except asyncpg.ForeignKeyViolationError:
                    raise PluginGone from None
            written = await connection.fetchval(_REPLACE, *_arguments(place), key, value, unmodified_since)
            if written is None:
                raise Stale
            return int(written)

    async def delete(self, place: Place, key: str) -> int | None:
        """Forgets an entry; the time of the change, `None` where there was none."""
        deleted = await self._database.fetchval(_DELETE, *_arguments(place), key)
        return None if deleted is None else int(deleted)


async def _expect_space(connection: asyncpg.Connection, place: Place, key: str, value: str) -> None:
    space = await connection.fetchrow(_SPACE, *_arguments(place), key)
    if not space["replaced"] and space["entries"] >= MOST_ENTRIES:
        raise Full
    cost = len(value.encode()) + len(key) + len(place.scope_id) + ENTRY_BYTES
    # What takes no more than before is kept even where there is too much already.
    if cost > space["freed"] and space["bytes"] - space["freed"] + cost > MOST_BYTES:
        raise TooLarge


def notification(change: UserStateChanged) -> bytes:
    """The frame that tells a change to the connections of its user."""
    payload: dict[str, object] = {
        "pluginId": change.plugin_id,
        "scope": change.scope,
        "scopeId": change.scope_id,
        "key": change.key,
        "updatedAt": change.updated_at,
    }
    if change.writer_id is not None:
        payload["writerId"] = change.writer_id
    if change.deleted:
        payload["deleted"] = True
    return orjson.dumps({"type": "notification", "action": ACTION, "payload": payload})


def notifying(connections: Connections) -> Callable[[UserStateChanged], Awaitable[None]]:
    """A listener that tells each change to the connections of its user, and to no others."""

    async def notify(change: UserStateChanged) -> None:
        connections.notify(change.user, notification(change))

    return notify


def _arguments(place: Place) -> tuple[str, str, str, str]:
    return place.plugin_id, place.user, place.scope, place.scope_id
