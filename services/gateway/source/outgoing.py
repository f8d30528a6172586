"""What this gateway writes to the streams of requests: on one connection, one pipeline at a time.

A storm of requests otherwise opens a connection for each, and an asker that gives up tears its connection down in the
middle of a command. Here the askers wait for a task that none of them can cancel, and what is given up before its turn
is not written at all.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, TypeAlias

from redis.asyncio import Redis

from shared.broker.guarded import encoded
from shared.contracts.replies import Envelope

KEEP_REQUESTS = 10_000
"""Most requests kept in a stream (approximately). More than that waiting are past their deadlines anyway."""

AT_ONCE = 64
"""Most requests of one pipeline. What waits is bounded by those who ask: `services.gateway.source.requests`."""

_Command: TypeAlias = tuple[str | bytes | int, ...]


class Outgoing:
    """Writes requests in the order in which they come. Every method raises `BROKER_ERRORS`."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._waiting: deque[tuple[_Command, asyncio.Future[Any]]] = deque()  # Any: what Redis answers to each command
        self._writing: asyncio.Task[None] | None = None
        self._closed = False

    async def publish(self, request: Envelope, stream: str) -> bytes:
        """Writes a request; returns the id of its entry."""
        body = await encoded(request, request.request_id)
        entry_id: bytes = await self._written("XADD", stream, "MAXLEN", "~", KEEP_REQUESTS, "*", "__data__", body)
        return entry_id

    async def remove(self, stream: str, *entries: bytes) -> None:
        """Takes entries back."""
        await self._written("XDEL", stream, *entries)

    async def close(self) -> None:
        """Gives up what was not written yet, and takes no more: what is written while connections are closed makes
        redis-py connect again, or meets the end of its connection in the middle of a command.
        """
        self._closed = True
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.wait([self._writing])

    async def _written(self, *command: str | bytes | int) -> Any:
        if self._closed:
            raise ConnectionError("nothing is written any more")
        written: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((command, written))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write())
        return await written

    async def _write(self) -> None:
        """Writes until nothing waits. Bounded by the client's own timeouts."""
        while batch := self._next():
            try:
                answers = await self._answers([command for command, _ in batch])
            except Exception as error:  # noqa: BLE001 - whatever it is, each asker is told, or it would wait in vain
                answers = [error] * len(batch)
            for (_, written), answer in zip(batch, answers, strict=True):
                if written.done():
                    continue
                if isinstance(answer, Exception):
                    written.set_exception(answer)
                else:
                    written.set_result(answer)

    async def _answers(self, commands: Sequence[_Command]) -> Sequence[Any]:
        if len(commands) == 1:  # as nearly always: half of what a pipeline of one takes
            return [await self._client.execute_command(*commands[0])]  # type: ignore[no-untyped-call]  # as redis-py leaves it
        pipeline = self._client.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        return await pipeline.execute(raise_on_error=False)

    def _next(self) -> list[tuple[_Command, "asyncio.Future[Any]"]]:
        """What is written next, without those whose askers have gone."""
        batch: list[tuple[_Command, asyncio.Future[Any]]] = []
        while self._waiting and len(batch) < AT_ONCE:
            command, written = self._waiting.popleft()
            if not written.done():
                batch.append((command, written))
        return batch
