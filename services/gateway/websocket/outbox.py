"""The way out to one client: one write per frame while it keeps up, a bounded queue while it does not."""

import asyncio
import os
from collections.abc import Callable

from aiohttp import WSMsgType, web

from services.gateway.websocket.backlog import Backlog, Owner
from services.gateway.websocket.framing import framed, text_of

MAX_BUFFERED = 256 << 10
"""Bytes that may wait in the transport before frames are queued: enough for every burst of a client that reads."""

BLOCKED_SECONDS = 15.0
"""A client that has no place for a frame for this long is closed: it takes nothing, or next to nothing."""


class Outbox:
    """Frames on their way to one client.

    `drained` is called when a queue that had filled is empty again; `blocked` when the client took nothing for
    `BLOCKED_SECONDS`.
    """

    __slots__ = (
        "_backlog",
        "_blocked",
        "_closed",
        "_descriptor",
        "_drained",
        "_draining",
        "_gathered",
        "_overflowed",
        "_socket",
        "_straight",
        "_transport",
        "_within",
    )

    def __init__(
        self,
        socket: web.WebSocketResponse,
        transport: asyncio.Transport,
        drained: Callable[[], None],
        blocked: Callable[[], None],
    ) -> None:
        self._socket = socket
        self._transport = transport
        self._descriptor: int = transport.get_extra_info("socket").fileno()
        self._drained = drained
        self._blocked = blocked
        self._backlog = Backlog()
        self._overflowed = False
        self._gathered: bytearray | None = None
        """Frames that are kept to be sent together; never while something is queued."""
        self._draining: asyncio.Task[None] | None = None
        self._within: asyncio.Future[None] | None = None
        """Somebody waits until the queue is within its bounds."""
        self._closed = False
        self._straight = True
        """Nothing is queued or gathered, and the outbox is not closed."""

    def offer(self, frame: bytes | bytearray, owner: Owner) -> bool:
        """Sends or queues a frame, of which a copy is kept if any; `False` when there is no room for it, and none could
        be made by dropping what waits for others. After `close` frames are dropped.

        This runs for every frame. While the transport is empty, a frame goes to the kernel past it: that is what the
        transport would do, too, but its way there costs an eighth of all that a frame costs.
        """
        taken = self._write(frame) if self._straight else self._gather(frame)
        return taken or self._enqueue(text_of(frame), owner)

    @property
    def queued_frames(self) -> int:
        """Frames that wait for the client to read."""
        return len(self._backlog)

    @property
    def queued_bytes(self) -> int:
        """Bytes of those frames."""
        return self._backlog.size

    def has_room(self, frames: int, size: int) -> bool:
        """Whether the queue could take that many frames of `size` bytes in all, and nobody had to give way."""
        return self._backlog.has_room(frames, size)

    def gather(self) -> None:
        """Keeps what is offered from now on, until `send_gathered` or until it is much: a write of several frames costs
        little more than that of one. A client that is behind gets what is queued for it as before.
        """
        if self._straight and not self._transport.get_write_buffer_size():
            self._gathered, self._straight = bytearray(), False

    def send_gathered(self) -> None:
        """Sends what was gathered."""
        gathered, self._gathered = self._gathered, None
        if gathered is not None:
            self._straight = True
            if gathered:
                self._write(gathered)

    def deliver(self, text: bytes) -> None:
        """Sends or queues a text whatever the queue holds: replies and endings, as many as were asked for."""
        self.send_gathered()
        if self._straight and self._transport.get_write_buffer_size() <= MAX_BUFFERED:
            if not self._transport.is_closing():
                self._transport.write(framed(text))
        elif not self._closed:
            self._backlog.append(text)
            self._drain_soon()

    async def room(self) -> None:
        """Returns once the queue is within its bounds: a client that asks for more than it takes has to wait. It need
        not be empty, as it may not be for long while much is told: who wants to be told less has to be heard.
        """
        if self._draining is not None and not self._backlog.has_room(1, 0):
            if self._within is None:
                self._within = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._draining, self._within], return_when=asyncio.FIRST_COMPLETED)

    def close(self) -> None:
        """Drops what waits and what comes. A frame that the transport has begun to send is sent to its end."""
        self._closed, self._straight, self._gathered = True, False, None
        if self._draining is not None:
            self._draining.cancel()
        self._backlog.clear()

    def _write(self, frames: bytes | bytearray) -> bool:
        """Sends whole frames; `False` when too much waits before them."""
        transport = self._transport
        waiting = transport.get_write_buffer_size()
        if waiting > MAX_BUFFERED:
            return False
        if transport.is_closing():
            # It takes no more, and its descriptor may soon be another's. The connection's reader notices and ends it.
            return True
        try:
            written = 0 if waiting else os.write(self._descriptor, frames)
        except OSError:
            written = 0  # full, or broken: the transport meets it as well, and knows what to do
        if written != len(frames):
            transport.write(bytes(frames[written:]))
        return True

    def _gather(self, frame: bytes | bytearray) -> bool:
        """Keeps a frame; `False` when nothing is gathered."""
        if self._gathered is None:
            return False
        self._gathered += frame
        if len(self._gathered) > MAX_BUFFERED:
            self.send_gathered()
        return True

    def _enqueue(self, text: bytes, owner: Owner) -> bool:
        if self._closed:
            return True
        if not self._backlog.has_room(1, len(text)):
            self._overflowed = True
        admitted = self._backlog.admit(text, owner)
        self._drain_soon()
        return admitted

    def _drain_soon(self) -> None:
        if self._draining is None:
            self._straight = False
            self._draining = asyncio.get_running_loop().create_task(self._drain())

    async def _drain(self) -> None:
        try:
            while self._backlog:
                text = self._backlog.popleft()
                if self._within is not None and self._backlog.has_room(1, 0):
                    self._within.set_result(None)
                    self._within = None
                async with asyncio.timeout(BLOCKED_SECONDS):
                    await self._socket.send_frame(text, WSMsgType.TEXT)
        except TimeoutError:
            self._blocked()
            return
        except ConnectionError:
            return
        self._draining, self._straight = None, True
        if self._overflowed:
            self._overflowed = False
            self._drained()
