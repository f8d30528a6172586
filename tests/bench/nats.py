"""The peer nats-server, where it is installed: a message to one subject, and its WebSocket clients that subscribe."""

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from tests.bench.ground import Ground
from tests.bench.native import Unavailable
from tests.bench.pacing import paced
from tests.bench.process import Program
from tests.bench.writing import AT
from tests.support.waiting import eventually

SUBJECT = b"bench"

_CONNECT = b'CONNECT {"verbose":%b}\r'

_SETTINGS = """
host: 127.0.0.1
port: {port}
ping_interval: "1h"
websocket {{ host: 127.0.0.1, port: {websocket_port}, no_tls: true }}
"""


class Publisher:
    """Publishes over a connection of its own."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def tick(self, rate: float, seconds: float, size: int) -> None:
        """So many messages a second for so long, each of `size` bytes."""

        async def publish(_: int) -> None:
            text = b"%b%d " % (AT.encode(), time.monotonic_ns())
            self._writer.write(b"PUB %b %d\r\n%b\r\n" % (SUBJECT, max(size, len(text)), text.ljust(size, b"x")))
            await self._writer.drain()

        await paced(rate, seconds, publish)


def subscriptions(clients: int) -> Sequence[bytes]:
    """What the clients say: each that it connects, and then that it subscribes."""
    return [_CONNECT % b"true"] * clients + [b"SUB %b 1\r" % SUBJECT] * clients


@asynccontextmanager
async def server(ground: Ground, websocket_port: int) -> AsyncIterator[tuple[Program, Publisher]]:
    """The server and who publishes. Raises Unavailable where it is not installed."""
    found = shutil.which("nats-server", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
    if found is None:
        raise Unavailable("the peer `nats-server` is not installed (Debian: apt install nats-server).")
    port = ground.ports.private()
    settings = ground.folder / f"nats-{port}.conf"
    settings.write_text(_SETTINGS.format(port=port, websocket_port=websocket_port))
    async with Program(found, "--config", str(settings), "--log", str(settings.with_suffix(".log"))) as program:
        await eventually(lambda: _answers(port))
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(_CONNECT % b"false" + b"\n")
        try:
            yield program, Publisher(writer)
        finally:
            writer.transport.abort()


async def _answers(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionError:
        return False
    writer.transport.abort()
    return True
