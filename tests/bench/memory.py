"""What an idle connection occupies, beside a bare server's."""

import sys
from collections.abc import Sequence

from tests.bench.audience import OPENING_SECONDS, audience, possible, subscription
from tests.bench.figures import Figure, Target
from tests.bench.ground import Ground
from tests.bench.process import AnsweringProgram, Program
from tests.bench.writing import seed
from tests.support.waiting import eventually

CONNECTIONS = 2000
FIRST = 100
"""Connections before anything is counted: what a process needs for its first ones it needs once."""

SESSIONS = 200

ECHOED = b'{"success":true}'


async def measure(ground: Ground) -> Sequence[Figure]:
    """A gateway of its own whose every client has one scope, and an aiohttp server that echoed one message to each."""
    await seed(ground.pool, "idle", SESSIONS, 1)
    await ground.serve()
    connections = possible(CONNECTIONS)
    scopes = [subscription(scope, f"idle-{scope % SESSIONS + 1}", {}) for scope in range(connections)]
    port = ground.ports.private()
    async with (
        ground.gateway() as gateway,
        AnsweringProgram(sys.executable, "-m", "tests.bench.peers.sockets", str(port), "1") as server,
    ):
        await server.ask(rate=1, seconds=0, size=1, each=1)
        product = await _bytes_each(ground, gateway.program, gateway.port, scopes, checked=True)
        bare = await _bytes_each(ground, server, port, [ECHOED] * connections, checked=False)
    return (
        Figure(
            f"memory per idle connection with one scope, of {connections:,}",
            product / 1024,
            "KiB",
            bare / 1024,
            "aiohttp that echoed one message to each",
            Target("at most", 1.5),
        ),
    )


async def _bytes_each(ground: Ground, server: Program, port: int, lines: Sequence[bytes], *, checked: bool) -> float:
    """By how much the server grew for each connection. `checked`: wait until a check reached every scope."""
    async with audience(ground, port, FIRST, lines[:FIRST]):
        before = server.resident_bytes()
        async with audience(ground, port, len(lines), lines) as clients:
            if checked:
                await eventually(clients.heard, lambda heard: heard.checks >= len(lines), OPENING_SECONDS)
            return (server.resident_bytes() - before) / len(lines)
