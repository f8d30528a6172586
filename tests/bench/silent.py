"""What one client that never reads costs the others of its gateway."""

import os
import socket
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.bench.audience import Audience, Delays, audience, possible, subscription
from tests.bench.cores import apart
from tests.bench.figures import Figure, Target, median
from tests.bench.ground import Gateway, Ground
from tests.bench.pacing import paced
from tests.bench.writing import CONTENT_BYTES, TimedWriter, seed

SCOPES = 5000
SILENT_SCOPES = 256
"""All that a connection may have: about a megabyte a second, so that socket and queue are full at once."""

RATE = 4.0
"""Commits a second."""

ROUNDS = 3
SECONDS = 5.0


async def measure(ground: Ground) -> Sequence[Figure]:
    """A gateway of its own, with the silent client and without, in turn."""
    await ground.serve()
    await seed(ground.pool, "silent", 1, 1)
    writer = TimedWriter(ground.pool, ["silent-1-1"], CONTENT_BYTES)
    scopes = possible(SCOPES)
    lines = [subscription(scope, "silent-1", {}) for scope in range(scopes)]
    beside: list[float] = []
    alone: list[float] = []
    grown: list[float] = []
    with apart() as on_its_own_core:
        async with ground.gateway() as gateway:
            on_its_own_core(gateway.program)
            async with audience(ground, gateway.port, scopes, lines) as others:
                await paced(RATE, SECONDS, writer.commit)
                for _ in range(ROUNDS):
                    alone.append((await _delays(others, writer)).tail)
                    before = gateway.program.resident_bytes()
                    with _silent_client(gateway):
                        beside.append((await _delays(others, writer)).tail)
                        grown.append((gateway.program.resident_bytes() - before) / (1 << 20))
                flaws = (await others.heard()).flaws
    return (
        Figure(
            f"statement sent → frame at {scopes:,} clients, p99, beside one that never reads",
            median(beside),
            "ms",
            median(alone),
            "without it",
            Target("at most", 1.2),
        ),
        Figure("memory of the gateway for it", max(grown), "MiB", target=Target("at most", 8)),
        Figure("frames to repair of the others", flaws, "", target=Target("at most", 0)),
    )


async def _delays(others: Audience, writer: TimedWriter) -> Delays:
    await others.delays(restart=True)
    await paced(RATE, SECONDS, writer.commit)
    await others.heard_to_the_end()
    return await others.delays()


@contextmanager
def _silent_client(gateway: Gateway) -> Iterator[None]:
    """Subscribes as often as one may, and takes nothing from then on, into a buffer that is soon full."""
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", gateway.port))
        client.sendall(
            f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{gateway.port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {b64encode(os.urandom(16)).decode()}\r\n\r\n".encode()
        )
        for scope in range(SILENT_SCOPES):
            request = subscription(scope, "silent-1", {})
            # Masked with zeros; every request is longer than 125 bytes and shorter than 64 KiB.
            client.sendall(bytes((0x81, 0xFE)) + len(request).to_bytes(2, "big") + bytes(4) + request)
        yield
