"""Receipts from before a session was followed here, for clients that come from another gateway (G6)."""

import asyncio
import logging
from collections.abc import Mapping, Sequence

from redis.asyncio import Redis

from services.gateway.scopes.memory import LINGER_SECONDS, SESSION_BYTES
from shared.broker.connection import BROKER_ERRORS
from shared.broker.receipts import earlier_receipts
from shared.contracts.streams import partition_of

logger = logging.getLogger(__name__)

PAUSE_SECONDS = 1.0
"""Between two reads of a partition: of however many clients that come, each finds its session in one of few reads. One
of them fetches 8 MiB at most.
"""


class _Look:
    """A read for whoever asks before it begins."""

    def __init__(self) -> None:
        self.sessions: set[str] = set()
        self.found: asyncio.Future[Mapping[str, Sequence[bytes]]] = asyncio.get_running_loop().create_future()


class Recalling:
    """Looks into the streams' last minute. One read at a time, since each may hold all that its stream does; nobody
    joins it once it has begun, so it shows all that came before a session was asked for.
    """

    def __init__(self, client: Redis, partitions: int, pause: float = PAUSE_SECONDS) -> None:
        self._client = client
        self._partitions = partitions
        self._pause = pause
        self._waiting: dict[int, _Look] = {}
        self._looking: dict[int, asyncio.Task[None]] = {}
        self._reading = asyncio.Lock()

    async def receipts_of(self, session_id: str) -> Sequence[bytes]:
        """The session's latest receipts as JSON, in order, no more than are remembered of one; none where Redis does
        not answer.
        """
        partition = partition_of(session_id, self._partitions)
        look = self._waiting.get(partition)
        if look is None:
            look = self._waiting[partition] = _Look()
        look.sessions.add(session_id)
        if partition not in self._looking:
            self._looking[partition] = asyncio.get_running_loop().create_task(self._look(partition))
        return (await asyncio.shield(look.found)).get(session_id, ())

    async def close(self) -> None:
        """Ends what is under way."""
        for task in self._looking.values():
            task.cancel()
        await asyncio.gather(*self._looking.values(), return_exceptions=True)
        # A task that was cancelled before it began has left those who wait for it.
        for look in self._waiting.values():
            look.found.set_result({})
        self._waiting.clear()
        self._looking.clear()

    async def _look(self, partition: int) -> None:
        """Reads for all who wait, and for those who have come meanwhile, until nobody does."""
        look: _Look | None = None
        try:
            while partition in self._waiting:
                async with self._reading:
                    look = self._waiting.pop(partition)
                    look.found.set_result(await self._read(partition, look))
                await asyncio.sleep(self._pause)
        finally:
            del self._looking[partition]
            for left in (look, self._waiting.pop(partition, None)):
                if left is not None and not left.found.done():
                    left.found.set_result({})

    async def _read(self, partition: int, look: _Look) -> Mapping[str, Sequence[bytes]]:
        try:
            return await earlier_receipts(self._client, partition, look.sessions, LINGER_SECONDS, SESSION_BYTES)
        except BROKER_ERRORS as error:
            logger.info("earlier receipts of partition %d could not be read: %s", partition, type(error).__name__)
            return {}
