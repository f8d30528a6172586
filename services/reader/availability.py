"""Keeps the sources open, and says what a reader waits for."""

import asyncio
import logging

import asyncpg

from services.reader.answers import MIGRATE
from services.reader.patience import DATABASE_AWAY
from services.reader.pools import Sources, open_source
from shared.settings import Settings

logger = logging.getLogger(__name__)

WATCH_SECONDS = 1.0
"""Pause between two looks at the database."""

_LOOK_TIMEOUT = 5.0
_FAILURES = (asyncpg.PostgresError, *DATABASE_AWAY)
_SCHEMA = "SELECT to_regprocedure('conversation.session_visible(text,text,boolean)') IS NOT NULL"


class Availability:
    """Opens the sources once they answer, and watches them afterwards."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._replica: asyncpg.Pool | None = None
        self.waits: dict[str, str] = {"postgresql": "not asked yet"}
        """What is not ready, with what it waits for; as `shared.process.Readiness`."""

    async def open(self) -> Sources:
        """The sources, once the primary answers: however long that takes."""
        while True:
            try:
                primary = await open_source(self._settings.database_url, self._settings.database_pool, "reader")
            except _FAILURES as error:
                self._primary_away(error)
                await asyncio.sleep(WATCH_SECONDS)
            else:
                sources = Sources(primary)
                await self.look(sources)
                return sources

    async def watch(self, sources: Sources) -> None:
        """Looks again and again, until it is cancelled."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            await self.look(sources)

    async def look(self, sources: Sources) -> None:
        """Asks both sources once. Reads go to the replica only while it answers."""
        degraded = await self._look_at_replica(sources)
        try:
            migrated = await sources.primary.fetchval(_SCHEMA, timeout=_LOOK_TIMEOUT)
        except _FAILURES as error:
            self._primary_away(error)
        else:
            self.waits = degraded if migrated else {"schema": MIGRATE}

    def close(self, sources: Sources) -> None:
        """Closes what is open."""
        sources.primary.terminate()
        if self._replica is not None:
            self._replica.terminate()

    async def _look_at_replica(self, sources: Sources) -> dict[str, str]:
        url = self._settings.replica_url
        if url is None:
            return {}
        try:
            if self._replica is None:
                self._replica = await open_source(url, self._settings.database_pool, "reader")
            migrated = await self._replica.fetchval(_SCHEMA, timeout=_LOOK_TIMEOUT)
        except _FAILURES as error:
            sources.replica = None
            return {"degraded": f"the replica does not answer ({type(error).__name__}); the primary serves its reads"}
        sources.replica = self._replica if migrated else None
        return {} if migrated else {"degraded": "the replica has no schema yet; the primary serves its reads"}

    def _primary_away(self, error: BaseException) -> None:
        if "postgresql" not in self.waits:
            logger.warning("PostgreSQL does not answer (%s); waiting for it", type(error).__name__)
        self.waits = {"postgresql": f"PostgreSQL does not answer ({type(error).__name__})"}
