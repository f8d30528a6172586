"""How every process connects to PostgreSQL."""

from collections.abc import Awaitable, Callable
from typing import Final

import asyncpg
from pydantic import SecretStr

CONNECT_TIMEOUT = 5.0
"""Seconds to wait for one connection. A server that takes longer is treated as away, and the request as retryable."""

LOST: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)
"""What asyncpg raises when the server is away or a connection cannot be used any more: an internal error where its end
came between two steps.
"""

AWAY: Final = (
    ConnectionRefusedError,
    TimeoutError,
    asyncpg.InternalClientError,
    asyncpg.OperatorInterventionError,
    asyncpg.PostgresConnectionError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.TooManyConnectionsError,
)
"""What tells, of a single statement, that the server is away for a moment, and not that the statement is wrong."""

IDLE_IN_TRANSACTION_SECONDS = 10
"""A process that stands still inside a transaction (suspended, or cut off from the network) holds its row locks against
every writer until the server ends its session; PostgreSQL's own default is never. No transaction here pauses for as
long between two statements.
"""

# The source stores UTC, and columns without a zone are read as UTC: the session's zone must not shift them.
_SESSION = {
    "timezone": "UTC",
    "application_name": "kandev-conversation",
    "idle_in_transaction_session_timeout": f"{IDLE_IN_TRANSACTION_SECONDS}s",
}


_FROM_2000_TO_1970 = 946_684_800_000_000
_TIMES = ("timestamptz", "timestamp")

Reset = Callable[[asyncpg.Connection], Awaitable[None]]
"""What a connection's session is put through when it goes back to its pool."""


async def open_pool(url: SecretStr, size: int, role: str, reset: Reset | None = None) -> asyncpg.Pool:
    """A pool of at most `size` connections, named after `role` in pg_stat_activity. Raises what asyncpg raises when the
    server is away.

    Times are read and given as microseconds since 1970 (`shared.times`): Python's own cannot hold all that the source
    can. `reset` None: asyncpg's own, a round trip to the server after each use.
    """
    return await asyncpg.create_pool(
        url.get_secret_value(),
        min_size=1,
        max_size=size,
        timeout=CONNECT_TIMEOUT,
        command_timeout=30,
        init=_times_as_numbers,
        reset=reset,
        server_settings={**_SESSION, "application_name": f"kandev-conversation/{role}"},
    )


async def connect(url: SecretStr, role: str) -> asyncpg.Connection:
    """One connection of its own, for what must not share: locks, and statements that outlast a pool's patience."""
    return await asyncpg.connect(
        url.get_secret_value(),
        timeout=CONNECT_TIMEOUT,
        server_settings={**_SESSION, "application_name": f"kandev-conversation/{role}"},
    )


async def _times_as_numbers(connection: asyncpg.Connection) -> None:
    for name in _TIMES:
        await connection.set_type_codec(
            name, schema="pg_catalog", encoder=_encoded_time, decoder=_decoded_time, format="tuple"
        )


def _encoded_time(moment: int) -> tuple[int]:
    return (moment - _FROM_2000_TO_1970,)


def _decoded_time(stored: tuple[int]) -> int:
    """PostgreSQL counts from 2000; its infinities are the largest and least number that it can write."""
    return stored[0] + _FROM_2000_TO_1970
