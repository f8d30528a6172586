"""The way out to one client: one write per frame while it keeps up, a bounded queue while it does not."""

import asyncio
from collections import deque
from collections.abc import Callable
from struct import Struct

from aiohttp import WSMsgType, web

MAX_BUFFERED = 256 << 10
"""Bytes that may wait in the transport before frames are queued: enough for every burst of a client that reads."""

MAX_QUEUED_BYTES = 2 << 20
"""Bytes that may wait in the queue: two of the largest frames. Beyond, scopes are reset instead."""

MAX_QUEUED_FRAMES = 1024
"""Frames that may wait in the queue."""

BLOCKED_SECONDS = 15.0
"""A client that takes nothing for this long is closed."""

_TEXT, _CLOSE = 0x81, 0x88
_MEDIUM, _LONG = 126, 127
_CLOSE_HEADER = Struct("!BBH")
_SHORT_HEADER, _MEDIUM_HEADER, _LONG_HEADER = Struct("!BB"), Struct("!BBH"), Struct("!BBQ")


def framed(payload: bytes) -> bytes:
    """A payload as one unmasked WebSocket text frame (RFC 6455, section 5.2)."""
    length = len(payload)
    if length < _MEDIUM:
        return _SHORT_HEADER.pack(_TEXT, length) + payload
    if length < 1 << 16:
        return _MEDIUM_HEADER.pack(_TEXT, _MEDIUM, length) + payload
    return _LONG_HEADER.pack(_TEXT, _LONG, length) + payload


def closing_frame(code: int, reason: bytes) -> bytes:
    """The frame that closes a WebSocket (RFC 6455, section 5.5.1). `reason`: at most 123 bytes."""
    return _CLOSE_HEADER.pack(_CLOSE, 2 + len(reason), code) + reason


class Outbox:
    """Frames on their way to one client.

    `drained` is called when a queue that had filled is empty again; `blocked` when the client took nothing for
    `BLOCKED_SECONDS`.
    """

    def __init__(
        self,
        socket: web.WebSocketResponse,
        transport: asyncio.Transport,
        drained: Callable[[], None],
        blocked: Callable[[], None],
    ) -> None:
        self._socket = socket
        self._transport = transport
        self._drained = drained
        self._blocked = blocked
        self._queue: deque[bytes] = deque()
        self._queued = 0
        self._overflowed = False
        self._draining: asyncio.Task[None] | None = None
        self._closed = False

    def offer(self, payload: bytes) -> bool:
        """Sends or queues a frame; `False` when there is no room for it. After `close` it is dropped."""
        if self._closed:
            return True
        transport = self._transport
        if self._draining is None and transport.get_write_buffer_size() < MAX_BUFFERED:
            # A transport that is closing takes no more; the connection's own reader notices and ends it.
            if not transport.is_closing():
                transport.write(framed(payload))
            return True
        if not self.has_room(1, len(payload)):
            self._overflowed = True
            return False
        self.deliver(payload)
        return True

    def has_room(self, frames: int, size: int) -> bool:
        """Whether the queue could take that many frames of `size` bytes in all."""
        return self._queued + size <= MAX_QUEUED_BYTES and len(self._queue) + frames <= MAX_QUEUED_FRAMES

    def deliver(self, payload: bytes) -> None:
        """Sends or queues a frame whatever the queue holds: replies and endings, as many as were asked for."""
        if self._closed:
            return
        if self._draining is None and self._transport.get_write_buffer_size() < MAX_BUFFERED:
            if not self._transport.is_closing():
                self._transport.write(framed(payload))
            return
        self._queue.append(payload)
        self._queued += len(payload)
        if self._draining is None:
            self._draining = asyncio.get_running_loop().create_task(self._drain())

    async def room(self) -> None:
        """Returns once the queue is within its bounds: a client that asks for more than it takes has to wait."""
        full = self._queued > MAX_QUEUED_BYTES or len(self._queue) >= MAX_QUEUED_FRAMES
        if full and self._draining is not None:
            await asyncio.wait([self._draining])

    def close(self) -> None:
        """Drops what waits and what comes. A frame that the transport has begun to send is sent to its end."""
        self._closed = True
        if self._draining is not None:
            self._draining.cancel()
        self._queue.clear()
        self._queued = 0

    async def _drain(self) -> None:
        try:
            while self._queue:
                payload = self._queue.popleft()
                self._queued -= len(payload)
                async with asyncio.timeout(BLOCKED_SECONDS):
                    await self._socket.send_frame(payload, WSMsgType.TEXT)
        except TimeoutError:
            self._blocked()
            return
        except ConnectionError:
            return
        self._draining = None
        if self._overflowed:
            self._overflowed = False
            self._drained()
