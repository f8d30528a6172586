"""Which replica publishes: the one that holds an advisory lock, on a connection of its own."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

import asyncpg

from services.revision.epoch import beat

LOCK_KEY: Final = 0x6B616E6465765F74
"""The advisory lock of the leading tracker: ASCII "kandev_t" as one 64-bit number. One lock per database."""

ASK_SECONDS: Final = 0.25
"""A standby asks this often. It does not wait on the lock: a waiting statement would pin old rows against VACUUM."""

HEARTBEAT_SECONDS: Final = 1.0
IDLE_SECONDS: Final = 5
"""The server ends the connection of a leader that has not written for so long (a stopped process, a lost network),
and with it the lock. Shorter than the age at which a heartbeat means a cold start, so that the next leader keeps
the epoch."""

_log = logging.getLogger(__name__)


class Leadership:
    """Tries for the lock until it has it, then writes the heartbeat. `changed` is called at every change of `held`, and
    when the epoch's row is found missing.
    """

    def __init__(self, dsn: str, changed: Callable[[], None]) -> None:
        self._dsn = dsn
        self._changed = changed
        self._held = False
        self._epoch_missing = False

    @property
    def epoch_missing(self) -> bool:
        """Whether the last heartbeat found no row of the epoch: the leader owes one."""
        return self._epoch_missing

    @property
    def held(self) -> bool:
        """Whether this process leads, as far as it knows. False as soon as the connection is known to be gone."""
        return self._held

    async def run(self) -> None:
        """One connection's life. Ends, with the lock given up, by cancellation or one of `shared.database.LOST`."""
        connection: asyncpg.Connection = await asyncpg.connect(
            self._dsn,
            timeout=10,
            command_timeout=IDLE_SECONDS,
            server_settings={
                "application_name": "kandev-conversation tracker lock",
                "idle_session_timeout": f"{IDLE_SECONDS}s",
                "lock_timeout": "2s",
            },
        )
        connection.add_termination_listener(lambda _: self._set(False))
        try:
            while True:
                if self._held:
                    self._epoch_missing = not await _heartbeat(connection)
                    if self._epoch_missing:
                        self._changed()
                else:
                    self._set(await connection.fetchval("SELECT pg_try_advisory_lock($1)", LOCK_KEY))
                await asyncio.sleep(HEARTBEAT_SECONDS if self._held else ASK_SECONDS)
        finally:
            self._set(False)
            connection.terminate()

    def _set(self, held: bool) -> None:
        if self._held != held:
            self._held = held
            self._changed()


async def _heartbeat(connection: asyncpg.Connection) -> bool:
    try:
        return await beat(connection)
    except asyncpg.LockNotAvailableError:
        _log.warning("the heartbeat waits for a transaction that holds the epoch's row")
        return True
