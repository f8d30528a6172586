"""How many entries a stream of requests holds: those that nobody has taken, or has not finished."""

import asyncio

from redis.asyncio import Redis

from shared.broker.connection import BROKER_ERRORS

LOOK_SECONDS = 5.0
"""Pause between two looks: no longer than Prometheus usually waits between its own."""


class Depth:
    """The length of one stream, as it was when Redis answered last; `None` while it does not answer."""

    def __init__(self, client: Redis, stream: str) -> None:
        self._client = client
        self._stream = stream
        self.entries: int | None = None

    async def run(self) -> None:
        """Looks until it is cancelled."""
        while True:
            try:
                self.entries = await self._client.xlen(self._stream)
            except BROKER_ERRORS:
                self.entries = None
            await asyncio.sleep(LOOK_SECONDS)
