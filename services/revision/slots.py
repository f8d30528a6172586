"""What the replication slots of the cluster keep, looked at every few seconds."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from time import time
from typing import Final

import asyncpg

from services.revision.metrics import CLOCK_SKEW, LAG, RETAINED, SLOTS
from shared.database import LOST
from shared.metrics.declaring import Read

LOOK_SECONDS: Final = 5.0
"""Pause between two looks."""

ANSWER_SECONDS: Final = 2.0
"""A database that takes longer counts as away."""

_LOOK: Final = """
SELECT count(*) FILTER (WHERE active)::int AS active, count(*) FILTER (WHERE NOT active)::int AS idle,
       coalesce(max(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)), 0)::float8 AS retained,
       coalesce(max(pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn))
                FILTER (WHERE starts_with(slot_name, 'kandev_')), 0)::float8 AS lag,
       extract(epoch FROM clock_timestamp())::float8 AS clock
  FROM pg_catalog.pg_replication_slots WHERE NOT pg_is_in_recovery()
"""


@dataclass(frozen=True, slots=True)
class _Look:
    """`retained`, `lag`: bytes. `skew`: seconds by which the server's clock is ahead."""

    active: int
    idle: int
    retained: float
    lag: float
    skew: float


class Slots:
    """The slots as they were when the database answered last. Nothing is told of them while it does not."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._found: _Look | None = None

    async def run(self) -> None:
        """Looks until it is cancelled."""
        while True:
            try:
                asked = time()
                row = await self._pool.fetchrow(_LOOK, timeout=ANSWER_SECONDS)
                skew = row["clock"] - (asked + time()) / 2
                self._found = _Look(row["active"], row["idle"], row["retained"], row["lag"], skew)
            except LOST:
                self._found = None
            await asyncio.sleep(LOOK_SECONDS)

    def reads(self) -> Iterable[Read]:
        """The figures."""
        if (found := self._found) is not None:
            yield SLOTS.of(found.active, "active")
            yield SLOTS.of(found.idle, "idle")
            yield RETAINED.of(found.retained)
            yield LAG.of(found.lag)
            yield CLOCK_SKEW.of(found.skew)
