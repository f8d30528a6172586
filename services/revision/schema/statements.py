"""Statements on tables that others write to: no writer waits for one of them longer than a moment."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import TypeVar

import asyncpg

from services.revision.schema.numbered import SchemaError

LOCK_TIMEOUT = "150ms"
"""Who waits for a table's lock is waited for by all who write to that table later, and so is who holds one and waits
for the next: a transaction here locks six tables at most, one behind the other, which together is less than a second.
"""

ATTEMPTS = 100
PAUSE = 1.0
"""Seconds between two attempts, in which the writers that had to wait get their turn."""

# These take no lock that a writer waits for, and may wait for long themselves: for transactions that are open.
_PATIENT = re.compile(
    r"(?:CREATE\s+(?:UNIQUE\s+)?INDEX\s+CONCURRENTLY|DROP\s+INDEX\s+CONCURRENTLY|CALL"
    r"|ALTER\s+TABLE\s+\S+\s+VALIDATE\s+CONSTRAINT)\b",
    re.IGNORECASE,
)
_CONCURRENT_INDEX = re.compile(
    r"CREATE\s+(?:UNIQUE\s+)?INDEX\s+CONCURRENTLY\s+IF\s+NOT\s+EXISTS\s+(?P<name>\w+)", re.IGNORECASE
)

# A leftover of a failed build is marked invalid.
_INVALID_INDEX = """
SELECT format('%I.%I', n.nspname, c.relname)
  FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relname = $1 AND n.nspname = 'public' AND NOT i.indisvalid
"""

T = TypeVar("T")


class LocksTaken(SchemaError):
    """The locks that are needed stayed taken through all attempts."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} could not lock its tables in {ATTEMPTS} attempts: "
            f"end the long transactions that hold them (pg_stat_activity) and run it again"
        )


async def briefly(connection: asyncpg.Connection, what: str, work: Callable[[], Awaitable[T]]) -> T:
    """Does `work` in one transaction that waits for each of its locks for a moment only, and tries again while they
    are taken. `what` names it in `LocksTaken`.
    """
    for attempt in range(ATTEMPTS):
        if attempt:
            await asyncio.sleep(PAUSE)
        try:
            async with connection.transaction():
                await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
                return await work()
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            continue
    raise LocksTaken(what)


async def run_alone(connection: asyncpg.Connection, what: str, statement: str) -> None:
    """Runs one statement outside a transaction of the caller's. An index whose build failed earlier is built anew."""
    if not _PATIENT.match(statement):
        await briefly(connection, what, lambda: connection.execute(statement))
        return
    if index := _CONCURRENT_INDEX.match(statement):
        for leftover in await connection.fetch(_INVALID_INDEX, index["name"]):
            await connection.execute(f"DROP INDEX CONCURRENTLY {leftover[0]}")
    await connection.execute(statement)
