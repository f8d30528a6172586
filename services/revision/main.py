"""The revision service: the write boundary and the tracker, in one process.

It does not migrate: `kandev-conversation migrate` does, and `up`. Until the schema is there it waits and says so.
"""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

import asyncpg

from services.revision.commands.boundary import WriteBoundary
from services.revision.commands.requests import CommandRequests
from services.revision.metrics import BACKLOG, METRICS, POOL, STATE, TERM
from services.revision.schema.migrate import SchemaStatus, status
from services.revision.slots import Slots
from services.revision.tracker.tracker import Tracker
from shared.broker.connection import connect
from shared.broker.depth import Depth
from shared.broker.presence import Presence
from shared.broker.receipts import ReceiptWriter
from shared.contracts.streams import COMMANDS
from shared.database import LOST, open_pool
from shared.draining import Draining
from shared.metrics.declaring import Read
from shared.metrics.pools import pool_reads
from shared.process import serve_health
from shared.settings import Settings

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
"""Pause between attempts to reach the database, and between looks whether it still answers."""

ANSWER_SECONDS = 2.0
"""A database that does not answer `SELECT 1` within this time is reported as away."""


@dataclass(slots=True)
class Readiness:
    """What `/ready` is told: each part that is not ready, with what it waits for."""

    draining: Draining
    database: str = "starting"
    tracker: Tracker | None = None
    requests: CommandRequests | None = field(default=None)

    def reasons(self) -> dict[str, str]:
        """Empty: ready. Only `degraded`: commands are served, but commits become receipts late or not at all."""
        found = self.draining.reasons()
        if self.database:
            found["database"] = self.database
        if self.requests is not None and not self.requests.connected:
            found["redis"] = "waiting for Redis to answer; check KANDEV_REDIS_URL"
        if self.tracker is not None:
            status = self.tracker.status
            if status.state == "starting":
                # Whoever replaces processes stops another one next: it could be the only one that follows the commits.
                found["tracker"] = "waiting for a slot, to follow the commits"
            elif status.state == "degraded":
                found["degraded"] = status.reason or "commits do not become receipts"
        return found


async def serve(settings: Settings, draining: Draining | None = None) -> None:
    """Runs until it is cancelled. Told to stop, it takes no more commands and carries out those in hand; only then it
    gives up the lead, which a standby takes over. Survives restarts of PostgreSQL and Redis; raises OSError when the
    metrics port is taken.
    """
    draining = draining or Draining.of(settings)
    readiness = Readiness(draining)
    health = await serve_health(settings, readiness.reasons, METRICS.registry)
    try:
        pool = await _open_pool(settings, readiness)
        try:
            await _run(settings, readiness, pool, await _migrated(pool, readiness))
        finally:
            pool.terminate()
    finally:
        await health.cleanup()


async def _run(settings: Settings, readiness: Readiness, pool: asyncpg.Pool, partitions: int) -> None:
    boundary = WriteBoundary(pool)
    receipts = connect(settings.redis_url)
    readiness.tracker = tracker = Tracker(settings.database_url, ReceiptWriter(receipts, partitions))
    readiness.requests = CommandRequests(settings.redis_url, boundary)
    slots, depth = Slots(pool), Depth(receipts, COMMANDS)

    def reads() -> Iterable[Read]:
        yield STATE.of(1, tracker.status.state)
        yield TERM.of(tracker.status.term or 0)
        if depth.entries is not None:
            yield BACKLOG.of(depth.entries)
        yield from slots.reads()
        yield from pool_reads(POOL, "primary", pool)

    try:
        with METRICS.reads(reads):
            async with readiness.draining.by(readiness.requests.drain), asyncio.TaskGroup() as tasks:
                tasks.create_task(Presence(receipts, "revision").run())
                tasks.create_task(slots.run())
                tasks.create_task(depth.run())
                tasks.create_task(tracker.run())
                tasks.create_task(readiness.requests.run())
                tasks.create_task(_watch(pool, readiness))
    finally:
        await boundary.close()
        await receipts.aclose()


async def _open_pool(settings: Settings, readiness: Readiness) -> asyncpg.Pool:
    while True:
        try:
            return await open_pool(settings.database_url, settings.database_pool, "revision")
        except LOST as error:
            _report(readiness, _away(error))
        await asyncio.sleep(LOOK_SECONDS)


async def _migrated(pool: asyncpg.Pool, readiness: Readiness) -> int:
    """Waits for this program's schema and returns the number of receipt partitions."""
    while True:
        if (partitions := await _partitions(pool, readiness)) is not None:
            return partitions
        await asyncio.sleep(LOOK_SECONDS)


async def _partitions(pool: asyncpg.Pool, readiness: Readiness) -> int | None:
    """The number of receipt partitions; None, and the reason reported, while the database cannot be served."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS), pool.acquire() as connection:
            problem = describe(await status(connection))
            found = None if problem else await connection.fetchval("SELECT partitions FROM conversation.settings")
    except LOST as error:
        problem, found = _away(error), None
    _report(readiness, problem)
    return found


def _away(error: BaseException) -> str:
    return f"waiting for PostgreSQL to answer ({type(error).__name__}); check KANDEV_DATABASE_URL"


def describe(found: SchemaStatus) -> str:
    """What a schema version asks of the operator; empty when it is this program's."""
    if found.current < found.latest:
        return f"the schema is at version {found.current}, not {found.latest}: run `kandev-conversation migrate`"
    if found.current > found.latest:
        return (
            f"the schema is at version {found.current}, and this program knows {found.latest}: run the program version "
            "that migrated it, or a later one"
        )
    return ""


async def _watch(pool: asyncpg.Pool, readiness: Readiness) -> None:
    """Commands wait for the database by themselves; this is for whoever asks whether they would get through."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        await _partitions(pool, readiness)


def _report(readiness: Readiness, problem: str) -> None:
    if problem != readiness.database:
        if problem:
            logger.warning("not ready: %s", problem)
        else:
            logger.info("the database is ready")
    readiness.database = problem
