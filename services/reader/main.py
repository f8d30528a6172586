"""One reader process."""

import asyncio
import logging
from collections.abc import Iterable

from services.reader.answers import Reader
from services.reader.availability import Availability
from services.reader.metrics import BACKLOG, METRICS, POOL, REPLICA
from services.reader.requests import GROUP, ReadRequests, consumer_name
from shared.broker.connection import BROKER_ERRORS, connect
from shared.broker.depth import Depth
from shared.broker.guarded import GroupGuard, open_broker
from shared.broker.presence import Presence
from shared.broker.replies import ReplyWriter
from shared.draining import Draining
from shared.metrics.declaring import Read
from shared.metrics.pools import pool_reads
from shared.process import serve_health
from shared.settings import Settings

logger = logging.getLogger(__name__)


async def serve(settings: Settings, draining: Draining | None = None) -> None:
    """Answers reads until it is cancelled. Told to stop, it takes no more of them and answers those in hand. Stays up,
    and says at `/ready` what it waits for, while PostgreSQL or Redis is away or the database has no schema.
    """
    draining = draining or Draining.of(settings)
    availability = Availability(settings)
    broker = open_broker(settings.redis_url)
    guard = GroupGuard(broker, settings.redis_url, [GROUP])

    def readiness() -> dict[str, str]:
        waits = {**availability.waits, **draining.reasons()}
        if not guard.connected:
            waits["redis"] = "Redis does not answer yet"
        return waits

    health = await serve_health(settings, readiness, METRICS.registry)
    consumer = consumer_name()
    client = connect(settings.redis_url)
    try:
        sources = await availability.open()
        try:
            requests = ReadRequests(broker, Reader(sources), ReplyWriter(client), consumer)
            depth = Depth(client, GROUP.stream)

            def reads() -> Iterable[Read]:
                if depth.entries is not None:
                    yield BACKLOG.of(depth.entries)
                yield REPLICA.of(sources.replica is not None)
                yield from requests.reads()
                yield from pool_reads(POOL, "primary", sources.primary)
                if sources.replica is not None:
                    yield from pool_reads(POOL, "replica", sources.replica)

            async def drain() -> None:
                await guard.leave()
                await requests.finish()

            try:
                with METRICS.reads(reads):
                    async with draining.by(drain), asyncio.TaskGroup() as tasks:
                        tasks.create_task(Presence(client, "reader").run())
                        tasks.create_task(depth.run())
                        tasks.create_task(guard.run())
                        tasks.create_task(availability.watch(sources))
            finally:
                await requests.close()
        finally:
            availability.close(sources)
            try:
                await client.xgroup_delconsumer(GROUP.stream, GROUP.name, consumer)
            except BROKER_ERRORS as error:
                logger.info("the consumer's name stays in the group (%s)", type(error).__name__)
    finally:
        await client.aclose()
        await health.cleanup()
