"""Room for so much at a time."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shared.contracts.errors import ErrorCode, RequestFailed


class Room:
    """Lets holders in, in the order in which they came, while they fit. One that never fits is let in alone.

    `code` and `message`: what is told to one that did not come in.
    """

    def __init__(self, size: int, code: ErrorCode, message: str) -> None:
        self._size = size
        self._refusal = (code, message)
        self._free = size
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def taken(self, size: int, deadline: float) -> AsyncIterator[None]:
        """Holds so much for the block. Raises RequestFailed when there is no room before the deadline, in
        `time.monotonic` seconds.
        """
        size = min(size, self._size)
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        place = (size, admitted)
        self._waiting.append(place)
        self._admit()
        try:
            try:
                async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                    await asyncio.shield(admitted)
            except TimeoutError:
                raise RequestFailed(*self._refusal) from None
            yield
        finally:
            self._leave(place)

    def _admit(self) -> None:
        while self._waiting and self._waiting[0][0] <= self._free:
            size, admitted = self._waiting.popleft()
            self._free -= size
            admitted.set_result(None)

    def _leave(self, place: tuple[int, asyncio.Future[None]]) -> None:
        size, admitted = place
        if admitted.done():
            self._free += size
        else:
            self._waiting.remove(place)
        self._admit()
