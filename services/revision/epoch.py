"""When history may have been broken, a new epoch is due (R2, R3)."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import asyncpg

STALE: Final = timedelta(seconds=10)
"""A heartbeat older than this says that no tracker was running: a cold start. It is written every second."""

_LOCK: Final = """
SELECT epoch, heartbeat_at, system_identifier, timeline, database_oid::bigint AS database_oid,
       revisions_oid::bigint AS revisions_oid, clock_timestamp() AS now,
       (SELECT oid::bigint FROM pg_catalog.pg_database WHERE datname = current_database()) AS own_database_oid,
       to_regclass('public.conversation_session_revisions')::oid::bigint AS own_revisions_oid
FROM conversation.epoch FOR UPDATE
"""

_RECORD: Final = """
UPDATE conversation.epoch
SET system_identifier = $1, timeline = $2, database_oid = $3, revisions_oid = $4, heartbeat_at = clock_timestamp()
"""

_READ: Final = "SELECT epoch FROM conversation.epoch FOR SHARE"

_HEARTBEAT: Final = "UPDATE conversation.epoch SET heartbeat_at = clock_timestamp()"


@dataclass(frozen=True, slots=True)
class Identity:
    """Which history this is: any difference means another one (R3)."""

    system_identifier: str
    timeline: int
    database_oid: int
    revisions_oid: int


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the epoch's row says. Nothing is recorded before the first tracker ran."""

    heartbeat_at: datetime | None
    identity: Identity | None


class EpochMissing(Exception):  # noqa: N818 - named by what it says, like the other outcomes of the tracker
    """The row of `conversation.epoch` is not there: the schema is not installed, or was emptied."""


def must_mint(recorded: Recorded, observed: Identity, now: datetime) -> str | None:
    """Why a new epoch is due, or `None` when the recorded one still names this history (R3)."""
    if recorded.heartbeat_at is None or recorded.identity is None:
        return "first installation"
    if recorded.identity != observed:
        changed = [name for name in Identity.__slots__ if getattr(recorded.identity, name) != getattr(observed, name)]
        return f"another history: changed {', '.join(changed)}"
    if now - recorded.heartbeat_at > STALE:
        return "cold start: no tracker was running"
    return None


async def read_epoch(connection: asyncpg.Connection) -> str:
    """The epoch that holds behind every commit already in the log.

    To be called after the slot was made. The share lock waits for a mint whose commit stands in the log but is not
    visible yet: that mint may lie before the slot and would never be decoded. One that lies behind it will be
    decoded too, which is harmless. Raises EpochMissing.
    """
    epoch: str | None = await connection.fetchval(_READ)
    if epoch is None:
        raise EpochMissing("conversation.epoch has no row: run the migrations")
    return epoch


async def settle_epoch(connection: asyncpg.Connection, system_identifier: str, timeline: int) -> str | None:
    """At take-over: mints if that is due, records this history and the heartbeat, all in one transaction under the
    row's lock.

    To be called once the own slot exists, so that the mint is decoded by it. Returns why it minted. Raises
    EpochMissing.
    """
    async with connection.transaction():
        row = await connection.fetchrow(_LOCK)
        if row is None:
            raise EpochMissing("conversation.epoch has no row: run the migrations")
        observed = Identity(system_identifier, timeline, row["own_database_oid"], row["own_revisions_oid"])
        reason = must_mint(_recorded(row), observed, row["now"])
        if reason is not None:
            await mint(connection, reason)
        await connection.execute(
            _RECORD, observed.system_identifier, observed.timeline, observed.database_oid, observed.revisions_oid
        )
    return reason


async def mint(connection: asyncpg.Connection, reason: str) -> str:
    """Mints a new epoch and returns it."""
    epoch: str = await connection.fetchval("SELECT conversation.mint_epoch($1)", reason)
    return epoch


async def beat(connection: asyncpg.Connection) -> None:
    """Writes the leader's heartbeat."""
    await connection.execute(_HEARTBEAT)


def _recorded(row: asyncpg.Record) -> Recorded:
    fields = (row["system_identifier"], row["timeline"], row["database_oid"], row["revisions_oid"])
    return Recorded(row["heartbeat_at"], None if None in fields else Identity(*fields))
