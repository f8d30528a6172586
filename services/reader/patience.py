"""How long a read waits: for a commit that it must show, and for a database that is being restarted."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import asyncpg

from services.reader.pools import Sources
from services.reader.snapshot import Standing
from shared.contracts.errors import RequestFailed

T = TypeVar("T")
S = TypeVar("S", bound=Standing)

PAUSES = (0.002, 0.004, 0.008, 0.016, 0.030, 0.060, 0.060, 0.070)
"""Pauses between two looks at a source that is behind, in seconds; 250 ms together. A receipt is ahead of its commit's
visibility by a few milliseconds; a replica that lags more is not worth a held connection: the asker asks again.
"""

RESTART_SECONDS = 1.0
"""How long a read tries to get through while connections fail: a restart of PostgreSQL then costs time, not errors."""

_RESTART_PAUSE = 0.05

DATABASE_AWAY = (
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
)
"""What asyncpg raises while the server is stopped, starting, or has dropped the connection."""


class Behind(RequestFailed):
    """The source shows the session older than the asker knows it; a moment later it may not."""

    def __init__(self) -> None:
        super().__init__("behind", "this source is older than the revision asked for; ask again")


async def settled(
    sources: Sources, read: Callable[[asyncpg.Pool], Awaitable[tuple[S, T]]], *, authoritative: bool
) -> tuple[S, T]:
    """One reading, with its standing, that is not older than the asker's knowledge (G2).

    What is missing on a replica is asked of the primary, which alone may say so: at once, since a wait for what may yet
    come would tell those who may not see it that it was there. Raises `Behind`, or `behind` without a primary.
    """
    pool = sources.serving(authoritative=authoritative)
    standing, found = await read(pool)
    if standing.missing and not standing.primary and pool is not sources.primary:
        pool = sources.primary
        standing, found = await read(pool)
    if standing.missing and not standing.primary:
        raise RequestFailed("behind", "only a standby answers, and it does not show what was asked for")
    if standing.behind:
        raise Behind
    return standing, found


async def patiently(look: Callable[[], Awaitable[T]], rest: Callable[[float], Awaitable[None]]) -> T:
    """What `look` finds, looking again after each pause while the source is behind. `rest` lets that many seconds pass,
    and lets others work meanwhile. Raises `Behind` when the wait was not enough.
    """
    for pause in PAUSES:
        try:
            return await look()
        except Behind:
            await rest(pause)
    return await look()


async def through_restart(attempt: Callable[[], Awaitable[T]]) -> T:
    """Tries again while the database is away, for at most `RESTART_SECONDS`; then raises what the driver raised."""
    until = time.monotonic() + RESTART_SECONDS
    while True:
        try:
            return await attempt()
        except DATABASE_AWAY:
            if time.monotonic() > until:
                raise
        await asyncio.sleep(_RESTART_PAUSE)
