"""One command, one transaction: tried again while what stands in its way is passing, else refused with a typed error.

Every handler keeps one lock order: the session row FOR KEY SHARE, message and turn rows by id, then (by trigger) the
ordinal counter and the revision row. Plain SQL may lock in another order; a deadlock with it ends here as one more
attempt.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import asyncpg

from shared.contracts.errors import RequestFailed
from shared.database import AWAY

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

CONTENTION_ATTEMPTS = 12
"""Attempts against other writers. A deadlock costs its victim the server's `deadlock_timeout` (one second), so that a
deadline of five seconds ends a command before this number does; it bounds conflicts that come back at once."""

FIRST_PAUSE = 0.01
LONGEST_PAUSE = 0.2
"""Seconds between attempts: doubled from the first to the longest, and spread at random over that length."""

# A unique violation is the id of a command that committed meanwhile: the next attempt finds its row.
_CONTENTION = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError, asyncpg.UniqueViolationError)

# The server or the way to it is gone for a moment. Whether a commit got through is unknown, and does not matter: the
# next attempt finds what it did.
_ABSENCE = (OSError, *AWAY)


class DeadlinePassed(Exception):
    """The command was not done in time. It may have been committed all the same; the asker asks again, or gave up."""


class Transactions:
    """Runs the work of commands against one pool. READ COMMITTED, the default, is set: the database may differ."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def run(self, work: Callable[[asyncpg.Connection], Awaitable[Result]], deadline: float) -> Result:
        """Commits `work` and returns its result. `deadline` is in the event loop's seconds.

        Raises RequestFailed with the typed reason, or DeadlinePassed.
        """
        pause, conflicts, limit = FIRST_PAUSE, 0, asyncio.timeout_at(deadline)
        try:
            async with limit:
                while True:
                    try:
                        return await self._attempt(work)
                    except _CONTENTION:
                        conflicts += 1
                        if conflicts == CONTENTION_ATTEMPTS:
                            raise RequestFailed("unavailable", "other writers kept this row busy; ask again") from None
                    except _ABSENCE as error:
                        logger.debug("database away (%s); trying again", type(error).__name__)
                    except asyncpg.InterfaceError as error:
                        raise _unusable_value(error) from None
                    except asyncpg.PostgresError as error:
                        raise _refused(error) from None
                    await asyncio.sleep(pause * random.random())
                    pause = min(2 * pause, LONGEST_PAUSE)
        except TimeoutError:
            if limit.expired():
                raise DeadlinePassed from None
            raise

    async def _attempt(self, work: Callable[[asyncpg.Connection], Awaitable[Result]]) -> Result:
        async with self._pool.acquire() as connection:
            try:
                async with connection.transaction(isolation="read_committed"):
                    return await work(connection)
            except asyncpg.InterfaceError:
                # asyncpg says the same of a lost connection and of a value that it cannot encode.
                if connection.is_closed():
                    raise ConnectionResetError from None
                raise


def _unusable_value(error: asyncpg.InterfaceError) -> RequestFailed:
    if isinstance(error, ValueError):
        return RequestFailed("invalid_query", "a value does not fit its column: correct it")
    logger.error("a command failed in the driver: %s", type(error).__name__)
    return RequestFailed("unavailable", "the database connection was in no state to do this; ask again")


def _refused(error: asyncpg.PostgresError) -> RequestFailed:
    match error:
        case asyncpg.ForeignKeyViolationError():
            return RequestFailed("not_found", "what this belongs to was deleted meanwhile")
        case asyncpg.DataError() | asyncpg.CheckViolationError() | asyncpg.ProgramLimitExceededError():
            return RequestFailed("invalid_query", "a value does not fit its column: correct it")
        case _:
            logger.error("a command failed in the database: %s (%s)", type(error).__name__, error.sqlstate)
            return RequestFailed("unavailable", "the database refused the command; ask again, or see the service's log")
