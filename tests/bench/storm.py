"""Very many followers that lose their connections at the same moment, while every session they follow changes."""

import asyncio
import os
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path

from client.connection import Connection
from client.follower import Follower
from client.state import State
from tests.bench.audience import possible
from tests.bench.cores import apart
from tests.bench.figures import Figure, Target
from tests.bench.ground import Gateway, Ground
from tests.bench.statements import LOOKS, MESSAGES, TURNS, calls, counted_statements
from tests.bench.writing import Writer, seed

CLIENTS = 2000
SESSIONS = 20
ROWS = 20
OPENING = 100
"""Connections that are opened at a time."""

FILES_PER_CLIENT = 2
"""A socket for the WebSocket, and one for pages while they are read."""


async def measure(ground: Ground) -> Sequence[Figure]:
    """Clients that can be told what they missed, and clients of a gateway that remembers nothing. Each is a follower
    with connections of its own, of the same kind that `tail` is built on, and all of them share one process.
    """
    await ground.serve()
    clients = possible(CLIENTS * FILES_PER_CLIENT) // FILES_PER_CLIENT
    return (*await _storm(ground, clients, remembering=True), *await _storm(ground, clients, remembering=False))


async def _storm(ground: Ground, clients: int, *, remembering: bool) -> Sequence[Figure]:
    prefix = "remembered" if remembering else "forgotten"
    await seed(ground.pool, prefix, SESSIONS, ROWS)
    writers = [Writer(ground.pool, [f"{prefix}-{number}-1"]) for number in range(1, SESSIONS + 1)]
    settings = {} if remembering else {"KANDEV_RESUME_MEGABYTES": "0"}
    with apart() as on_its_own_core:
        async with AsyncExitStack() as stack:
            gateway = await stack.enter_async_context(ground.gateway(**settings))
            on_its_own_core(gateway.program)
            followers = await _following(stack, gateway, prefix, clients)
            async with counted_statements(ground):
                changed = [_above(follower.state.applied or 0) for follower in followers]
                began, used, worked = time.perf_counter(), gateway.program.cpu_seconds(), time.process_time()
                _cut(gateway.port)
                await asyncio.gather(*(writer.commit(0) for writer in writers))
                waits = zip(followers, changed, strict=True)
                await asyncio.gather(*(follower.wait_until(reached) for follower, reached in waits))
                took = time.perf_counter() - began
                used, worked = gateway.program.cpu_seconds() - used, time.process_time() - worked
                pages, turns, looks = [await calls(ground.pool, pattern) for pattern in (MESSAGES, TURNS, LOOKS)]
            resumed = sum(follower.counters.resumes for follower in followers)
    what = "told what they missed" if remembering else "read again"
    most = 0 if remembering else SESSIONS
    return (
        Figure(
            f"{clients:,} followers of {SESSIONS} sessions lose their connections and {what}: until all are current",
            took,
            "s",
            target=Target("at most", 10),
        ),
        Figure("- pages of messages read of the database", pages, "", target=Target("at most", most)),
        Figure("- pages of turns read of the database", turns, "", target=Target("at most", most)),
        Figure("- looks at where sessions stand, periodic checks included", looks, ""),
        Figure("- followers that read nothing again", resumed, ""),
        Figure("- processor time of the gateway, and beside it that of the followers", used, "s", worked, "followers"),
    )


async def _following(stack: AsyncExitStack, gateway: Gateway, prefix: str, clients: int) -> Sequence[Follower]:
    """So many followers, a connection each, once all are live."""
    url, opening = f"http://127.0.0.1:{gateway.port}", asyncio.Semaphore(OPENING)

    async def follow(number: int) -> Follower:
        async with opening:
            connection = await stack.enter_async_context(Connection(url))
            follower = Follower(connection, f"{prefix}-{number % SESSIONS + 1}", limit=2 * ROWS)
            await stack.enter_async_context(follower)
            await follower.wait_until(lambda state: state.live)
            return follower

    return await asyncio.gather(*(follow(number) for number in range(clients)))


def _above(revision: int) -> Callable[[State], bool]:
    return lambda state: state.live and (state.applied or 0) > revision


def _cut(port: int) -> None:
    """Ends every connection of this process to a port, at both ends."""
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError), socket.socket(fileno=os.dup(int(path.name))) as connection:
            if connection.family == socket.AF_INET and connection.getpeername()[1] == port:
                connection.shutdown(socket.SHUT_RDWR)
