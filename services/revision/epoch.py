"""When history may have been broken, a new epoch is due (R2, R3)."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import asyncpg

BREACH: Final = "capture broken: "
"""How the reason of an epoch begins that was minted because changes no longer reach the log or the revisions."""

FIRST: Final = "first installation"
"""Why the first epoch of a database is minted: as it must be, and no sign of trouble."""

GONE: Final = "the row of conversation.epoch was gone"

STALE: Final = timedelta(seconds=10)
"""A heartbeat older than this says that no tracker was running: a cold start. It is written every second."""

_LOCK: Final = """
SELECT epoch, heartbeat_at, system_identifier, timeline, database_oid::bigint AS database_oid,
       revisions_oid::bigint AS revisions_oid, clock_timestamp() AS now, reason,
       (SELECT oid::bigint FROM pg_catalog.pg_database WHERE datname = current_database()) AS own_database_oid,
       to_regclass('public.conversation_session_revisions')::oid::bigint AS own_revisions_oid
FROM conversation.epoch FOR UPDATE
"""

_RECORD: Final = """
UPDATE conversation.epoch
SET system_identifier = $1, timeline = $2, database_oid = $3, revisions_oid = $4, heartbeat_at = clock_timestamp()
"""

_READ: Final = "SELECT epoch FROM conversation.epoch FOR SHARE"

_HEARTBEAT: Final = "UPDATE conversation.epoch SET heartbeat_at = clock_timestamp() RETURNING true"

_MINT_FOR_BREACH: Final = """
SELECT conversation.mint_epoch($1) FROM conversation.epoch WHERE NOT starts_with(reason, $2)
"""


@dataclass(frozen=True, slots=True)
class Identity:
    """Which history this is: any difference means another one (R3)."""

    system_identifier: str
    timeline: int
    database_oid: int
    revisions_oid: int


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the epoch's row says. Nothing is recorded before the first tracker ran. `breached`: capture was found broken
    under this epoch.
    """

    heartbeat_at: datetime | None
    identity: Identity | None
    breached: bool = False


def must_mint(recorded: Recorded, observed: Identity, now: datetime) -> str | None:
    """Why a new epoch is due, or `None` when the recorded one still names this history (R3)."""
    if recorded.heartbeat_at is None or recorded.identity is None:
        return FIRST
    if recorded.identity != observed:
        changed = [name for name in Identity.__slots__ if getattr(recorded.identity, name) != getattr(observed, name)]
        return f"another history: changed {', '.join(changed)}"
    if recorded.breached:
        return "capture is whole again"
    if now - recorded.heartbeat_at > STALE:
        return "cold start: no tracker was running"
    return None


async def read_epoch(connection: asyncpg.Connection) -> str:
    """The epoch that holds behind every commit already in the log.

    To be called after the slot was made. The share lock waits for a mint whose commit stands in the log but is not
    visible yet: that mint may lie before the slot and would never be decoded. One that lies behind it will be
    decoded too, which is harmless. A row that is gone is made again, behind the slot.
    """
    epoch: str | None = await connection.fetchval(_READ)
    return await mint(connection, GONE) if epoch is None else epoch


async def settle_epoch(connection: asyncpg.Connection, system_identifier: str, timeline: int) -> str | None:
    """At take-over: mints if that is due, records this history and the heartbeat, all in one transaction under the
    row's lock.

    To be called once the own slot exists, so that the mint is decoded by it, and while capture is whole. A row that is
    gone is made again. Returns why it minted.
    """
    async with connection.transaction():
        row = await connection.fetchrow(_LOCK)
        gone = row is None
        if gone:
            await mint(connection, GONE)
            row = await connection.fetchrow(_LOCK)
        observed = Identity(system_identifier, timeline, row["own_database_oid"], row["own_revisions_oid"])
        reason = GONE if gone else must_mint(_recorded(row), observed, row["now"])
        if reason is not None and not gone:
            await mint(connection, reason)
        await connection.execute(
            _RECORD, observed.system_identifier, observed.timeline, observed.database_oid, observed.revisions_oid
        )
    return reason


async def mint(connection: asyncpg.Connection, reason: str) -> str:
    """Mints a new epoch and returns it."""
    epoch: str = await connection.fetchval("SELECT conversation.mint_epoch($1)", reason)
    return epoch


async def mint_for_breach(connection: asyncpg.Connection, finding: str) -> bool:
    """Capture was found broken: what happened since it broke may be missing in every scope, at the revision that it
    holds. Mints once; the epoch after that is due when capture is whole again (`settle_epoch`). Whether it minted.
    """
    return await connection.fetchval(_MINT_FOR_BREACH, BREACH + finding, BREACH) is not None


async def beat(connection: asyncpg.Connection) -> bool:
    """Writes the leader's heartbeat; whether there was a row to write it to."""
    return await connection.fetchval(_HEARTBEAT) is not None


def _recorded(row: asyncpg.Record) -> Recorded:
    fields = (row["system_identifier"], row["timeline"], row["database_oid"], row["revisions_oid"])
    identity = None if None in fields else Identity(*fields)
    return Recorded(row["heartbeat_at"], identity, row["reason"].startswith(BREACH))
