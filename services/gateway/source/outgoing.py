"""What this gateway writes to the streams of requests: on one connection, one pipeline at a time.

A storm of requests otherwise opens a connection for each, and an asker that gives up tears its connection down in the
middle of a command. Here the askers wait for a task that none of them can cancel, and what is given up before its turn
is not written at all.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from faststream.redis import RedisBroker
from redis.asyncio import Redis
from redis.asyncio.client import Pipeline

from shared.contracts.base import Contract

KEEP_REQUESTS = 10_000
"""Most requests kept in a stream (approximately). More than that waiting are past their deadlines anyway."""

AT_ONCE = 64
"""Most requests of one pipeline. What waits is bounded by those who ask: `services.gateway.source.requests`."""

_Step = Callable[[Pipeline], Awaitable[object]]


class Outgoing:
    """Writes requests in the order in which they come. Every method raises `BROKER_ERRORS`."""

    def __init__(self, broker: RedisBroker, client: Redis) -> None:
        self._broker = broker
        self._client = client
        self._waiting: deque[tuple[_Step, asyncio.Future[Any]]] = deque()  # Any: what Redis answers to each step
        self._writing: asyncio.Task[None] | None = None
        self._closed = False

    async def publish(self, request: Contract, stream: str) -> bytes:
        """Writes a request; returns the id of its entry."""

        async def step(pipeline: Pipeline) -> None:
            await self._broker.publish(request, stream=stream, maxlen=KEEP_REQUESTS, pipeline=pipeline)

        entry_id: bytes = await self._written(step)
        return entry_id

    async def remove(self, stream: str, *entries: bytes) -> None:
        """Takes entries back."""

        async def step(pipeline: Pipeline) -> None:
            pipeline.xdel(stream, *entries)

        await self._written(step)

    async def close(self) -> None:
        """Gives up what was not written yet, and takes no more: what is written while connections are closed makes
        redis-py connect again, or meets the end of its connection in the middle of a command.
        """
        self._closed = True
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.wait([self._writing])

    async def _written(self, step: _Step) -> Any:
        if self._closed:
            raise ConnectionError("nothing is written any more")
        written: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((step, written))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write())
        return await written

    async def _write(self) -> None:
        """Writes until nothing waits. Bounded by the client's own timeouts."""
        while batch := self._next():
            try:
                pipeline = self._client.pipeline(transaction=False)
                for step, _ in batch:
                    await step(pipeline)
                answers = await pipeline.execute(raise_on_error=False)
            except Exception as error:  # noqa: BLE001 - whatever it is, each asker is told, or it would wait in vain
                answers = [error] * len(batch)
            for (_, written), answer in zip(batch, answers, strict=True):
                if written.done():
                    continue
                if isinstance(answer, Exception):
                    written.set_exception(answer)
                else:
                    written.set_result(answer)

    def _next(self) -> list[tuple[_Step, "asyncio.Future[Any]"]]:
        """What is written next, without those whose askers have gone."""
        batch: list[tuple[_Step, asyncio.Future[Any]]] = []
        while self._waiting and len(batch) < AT_ONCE:
            step, written = self._waiting.popleft()
            if not written.done():
                batch.append((step, written))
        return batch
