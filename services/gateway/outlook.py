"""Whether what a gateway depends on answers: asked again and again, for whoever asks whether it is ready."""

import asyncio
import logging

import asyncpg

from services.gateway.source.requests import Source
from shared.contracts.errors import RequestFailed
from shared.database import LOST
from shared.settings import Settings

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Pause between two looks."""

ANSWER_SECONDS = 5.0
"""A database that does not answer `SELECT 1` within this time is reported as away."""


class Outlook:
    """What was found when the database and, through a reader, the tracker were last looked at."""

    def __init__(self, source: Source, database: asyncpg.Pool, settings: Settings) -> None:
        self._source = source
        self._database = database
        self._most = settings.tracker_seconds
        self._away = ""
        self._degraded = ""

    def reasons(self) -> dict[str, str]:
        """What is wrong, as `shared.process.Readiness`. Without its database a gateway is not ready. Without a reader
        or a tracker it is degraded: all gateways are then, and none serves better.
        """
        if self._away:
            return {"database": self._away}
        return {"degraded": self._degraded} if self._degraded else {}

    async def run(self) -> None:
        """Looks until it is cancelled."""
        async with asyncio.TaskGroup() as looking:
            looking.create_task(self._watch_database())
            looking.create_task(self._watch_tracker())

    async def _watch_database(self) -> None:
        while True:
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    await self._database.fetchval("SELECT 1")
            except LOST as error:
                self._away = _told(self._away, f"PostgreSQL does not answer ({type(error).__name__})")
            else:
                self._away = _told(self._away, "")
            await asyncio.sleep(LOOK_SECONDS)

    async def _watch_tracker(self) -> None:
        while True:
            try:
                answer = await self._source.check(())
            except RequestFailed as failed:
                reason = f"no reader answers ({failed.failure.code}): nothing can be read until one does"
            else:
                reason = unseen(answer.tracker_seconds, self._most)
            self._degraded = _told(self._degraded, reason)
            await asyncio.sleep(LOOK_SECONDS)


def unseen(seconds: float | None, most: float) -> str:
    """Why clients follow late, when no tracker has led for `seconds`; None: none ever has. Empty while one leads."""
    if seconds is not None and seconds <= most:
        return ""
    since = "yet" if seconds is None else f"for {seconds:.0f} s"
    return f"no tracker was seen {since}: clients follow by the checks; is a revision process running?"


def _told(before: str, now: str) -> str:
    """Logs a change for the better or the worse, once; the number of seconds is none."""
    if bool(before) != bool(now):
        logger.log(logging.WARNING if now else logging.INFO, "%s", now or "what was missing answers again")
    return now
