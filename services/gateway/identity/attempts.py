"""How often a sign-in may fail: ten times in five minutes, by username and by address, at all gateways together.

An attempt whose password is still to be compared counts as well, so that no more than ten are compared however many
come at the same time. Whoever is refused for those alone is told so: they are done in a moment.
"""

from collections.abc import Sequence

import asyncpg

from services.gateway.identity.accounts import MOST_NAME_CHARACTERS
from services.gateway.identity.texts import username_key
from shared.contracts.errors import RequestFailed

MOST_FAILURES = 10
WINDOW_MINUTES = 5

UNDER_WAY_SECONDS = 30
"""An attempt of which nothing was heard for this long counts as failed: its gateway was stopped."""

# A subject's attempts are counted and added under its lock: any number of them at the same time get no more than their
# ten. The locks are taken in one order, or two sign-ins could wait for each other.
_LOCK = """
SELECT pg_advisory_xact_lock(hashtextextended(found.subject, 0))
  FROM (SELECT unnest($1::text[]) AS subject ORDER BY 1) found
"""
# By login_attempts_subject. Of each subject with ten attempts: whether ten have failed, and how long until the oldest
# of the last ten leaves the window.
_FULL = f"""
SELECT found.failures >= {MOST_FAILURES} AS failed,
       ceil(extract(epoch FROM found.tenth + interval '{WINDOW_MINUTES} minutes' - clock_timestamp()))::int AS wait
  FROM unnest($1::text[]) AS wanted (subject)
 CROSS JOIN LATERAL (
    SELECT (array_agg(a.attempted_at ORDER BY a.attempted_at DESC))[{MOST_FAILURES}] AS tenth,
           count(*) FILTER (WHERE a.failed OR a.attempted_at < clock_timestamp()
                                               - interval '{UNDER_WAY_SECONDS} seconds') AS failures
      FROM gateway.login_attempts a
     WHERE a.subject = wanted.subject
       AND a.attempted_at > clock_timestamp() - interval '{WINDOW_MINUTES} minutes') found
 WHERE found.tenth IS NOT NULL
"""  # noqa: S608 - literals
_ADD = """
INSERT INTO gateway.login_attempts (subject, attempted_at)
SELECT subject, now.moment FROM unnest($1::text[]) AS subject, (SELECT clock_timestamp() AS moment) now
RETURNING attempted_at
"""
_FAILED = "UPDATE gateway.login_attempts SET failed = true WHERE subject = ANY($1::text[]) AND attempted_at = $2"
_CLEAR = "DELETE FROM gateway.login_attempts WHERE subject = $1 OR (subject = $2 AND attempted_at = $3)"
_SWEEP = f"""
DELETE FROM gateway.login_attempts WHERE attempted_at < clock_timestamp() - interval '{WINDOW_MINUTES} minutes'
"""  # noqa: S608


class LoginAttempts:
    """The table of attempts."""

    def __init__(self, database: asyncpg.Pool) -> None:
        self._database = database

    async def begin(self, username: str, address: str) -> "Attempt":
        """Notes an attempt before its password is looked at. Raises RequestFailed `limit_exceeded`, with
        `retry_after` in seconds, and notes nothing then.
        """
        subjects = _subjects(username, address)
        async with self._database.acquire() as connection, connection.transaction(isolation="read_committed"):
            await connection.execute(_LOCK, subjects)
            full = await connection.fetch(_FULL, subjects)
            waits = [max(1, row["wait"]) for row in full if row["failed"]]
            if waits:
                raise RequestFailed(
                    "limit_exceeded", "too many failed sign-ins; wait and try again", retry_after=max(waits)
                )
            if full:
                raise RequestFailed("limit_exceeded", "too many sign-ins at once; try again in a moment", retry_after=1)
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

    async def failed(self) -> None:
        """It was another password."""
        await self._database.execute(_FAILED, self._subjects, self._noted_at)

    async def succeeded(self) -> None:
        """Forgets the username's failures, and of its address this attempt alone: others may try from there."""
        name, address = self._subjects
        await self._database.execute(_CLEAR, name, address, self._noted_at)


def _subjects(username: str, address: str) -> list[str]:
    """A name that no account can have counts by its beginning: whatever is sent, a subject stays small."""
    return [f"name:{username_key(username.strip()[:MOST_NAME_CHARACTERS])}", f"address:{address}"]
