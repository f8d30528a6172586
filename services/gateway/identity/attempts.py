"""How often a sign-in may fail: ten times in five minutes, by username and by address, at all gateways together."""

from collections.abc import Sequence

import asyncpg

from services.gateway.identity.accounts import MOST_NAME_CHARACTERS
from shared.contracts.errors import RequestFailed

MOST_FAILURES = 10
WINDOW_MINUTES = 5

# A subject's attempts are counted and added under its lock: any number of them at the same time get no more than their
# ten. The locks are taken in one order, or two sign-ins could wait for each other.
_LOCK = """
SELECT pg_advisory_xact_lock(hashtextextended(found.subject, 0))
  FROM (SELECT unnest($1::text[]) AS subject ORDER BY 1) found
"""
# By login_attempts_subject. How long until the oldest of the last ten leaves the window; no row while there are fewer.
_WAIT = f"""
SELECT max(ceil(extract(epoch FROM tenth.attempted_at + interval '{WINDOW_MINUTES} minutes' - clock_timestamp())))::int
  FROM unnest($1::text[]) AS wanted (subject)
 CROSS JOIN LATERAL (
    SELECT a.attempted_at FROM gateway.login_attempts a
     WHERE a.subject = wanted.subject AND a.attempted_at > clock_timestamp() - interval '{WINDOW_MINUTES} minutes'
     ORDER BY a.attempted_at DESC OFFSET {MOST_FAILURES - 1} LIMIT 1) tenth
"""  # noqa: S608 - literals
_ADD = """
INSERT INTO gateway.login_attempts (subject, attempted_at)
SELECT subject, now.moment FROM unnest($1::text[]) AS subject, (SELECT clock_timestamp() AS moment) now
RETURNING attempted_at
"""
_CLEAR = "DELETE FROM gateway.login_attempts WHERE subject = $1 OR (subject = $2 AND attempted_at = $3)"
_SWEEP = f"""
DELETE FROM gateway.login_attempts WHERE attempted_at < clock_timestamp() - interval '{WINDOW_MINUTES} minutes'
"""  # noqa: S608


class LoginAttempts:
    """The table of attempts. Each counts as a failure until it has succeeded."""

    def __init__(self, database: asyncpg.Pool) -> None:
        self._database = database

    async def begin(self, username: str, address: str) -> "Attempt":
        """Notes an attempt before its password is looked at. Raises RequestFailed `limit_exceeded`, with
        `retry_after` in seconds, and notes nothing then.
        """
        subjects = _subjects(username, address)
        async with self._database.acquire() as connection, connection.transaction(isolation="read_committed"):
            await connection.execute(_LOCK, subjects)
            wait = await connection.fetchval(_WAIT, subjects)
            if wait is not None:
                raise RequestFailed(
                    "limit_exceeded", "too many failed sign-ins; wait and try again", retry_after=max(1, wait)
                )
            return Attempt(self._database, subjects, await connection.fetchval(_ADD, subjects))

    async def sweep(self) -> None:
        """Removes what has left the window."""
        await self._database.execute(_SWEEP)


class Attempt:
    """One attempt that was noted."""

    def __init__(self, database: asyncpg.Pool, subjects: Sequence[str], noted_at: int) -> None:
        self._database = database
        self._subjects = subjects
        self._noted_at = noted_at

    async def succeeded(self) -> None:
        """Forgets the username's failures, and of its address this attempt alone: others may try from there."""
        name, address = self._subjects
        await self._database.execute(_CLEAR, name, address, self._noted_at)


def _subjects(username: str, address: str) -> list[str]:
    """A name that no account can have counts by its beginning: whatever is sent, a subject stays small."""
    return [f"name:{username.strip()[:MOST_NAME_CHARACTERS].lower()}", f"address:{address}"]
