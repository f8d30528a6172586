"""Very many clients that read the same page at the same moment, as after a lost connection."""

import asyncio
import random
import time
from collections.abc import Sequence

from tests.bench.audience import possible
from tests.bench.figures import Figure, Target
from tests.bench.ground import Ground
from tests.bench.statements import MESSAGES, calls, counted_statements
from tests.bench.writing import seed

CLIENTS = 2000
ROWS = 20
CONNECTING = 64
"""Connections that open at a time: fewer than a server's queue of them holds."""

PATIENCE = 20.0
"""Seconds that a client waits: several times as long as the gateway itself waits for a reader."""

PAUSE = 1.0
"""Seconds until a client that was refused asks again, give or take half of it: what `Retry-After` says."""

SESSION = "storm-1"

_REQUEST = (
    f"GET /api/v1/task-sessions/{SESSION}/messages?limit={ROWS}&sort=desc HTTP/1.1\r\n"
    "Host: 127.0.0.1\r\nConnection: close\r\n\r\n"
).encode()


async def measure(ground: Ground) -> Sequence[Figure]:
    """Counts how often PostgreSQL ran a statement on messages until every client had its page."""
    await seed(ground.pool, SESSION.removesuffix("-1"), 1, ROWS)
    await ground.serve()
    clients = possible(CLIENTS)
    async with counted_statements(ground):
        asked, took = await _served_at_once(ground.port, clients)
        reads = await calls(ground.pool, MESSAGES)
    answered = [times for times in asked if times is not None]
    return (
        Figure(f"reads of the database for {clients:,} equal pages at once", reads, "", target=Target("at most", 1)),
        Figure("- until the last one is answered", took, "s", target=Target("at most", 10)),
        Figure("- told to ask again", sum(times - 1 for times in answered), ""),
        Figure(f"- without a page after {PATIENCE:g} s", clients - len(answered), "", target=Target("at most", 0)),
    )


async def _served_at_once(port: int, count: int) -> tuple[Sequence[int | None], float]:
    """How often each client had to ask, `None` for one that got no page; and the seconds that all of it took. All
    connections are open before the first request leaves.
    """
    door = _Door(port)
    opened = await asyncio.gather(*(door.connected() for _ in range(count)))
    began = time.perf_counter()
    asked = await asyncio.gather(*(_asked(door, *connection) for connection in opened))
    return asked, time.perf_counter() - began


class _Door:
    """Opens connections, a few at a time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connecting = asyncio.Semaphore(CONNECTING)

    async def connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with self._connecting:
            return await asyncio.open_connection("127.0.0.1", self._port)


async def _asked(door: _Door, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int | None:
    """Asks until the page is there, with a pause as the gateway wants it; returns how often."""
    times = 0
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                times += 1
                writer.write(_REQUEST)
                answer = await reader.read(-1)
                writer.transport.abort()
                if answer.startswith(b"HTTP/1.1 200"):
                    return times
                await asyncio.sleep(PAUSE * (0.5 + random.random()))
                reader, writer = await door.connected()
    except (TimeoutError, ConnectionError):
        writer.transport.abort()
        return None
