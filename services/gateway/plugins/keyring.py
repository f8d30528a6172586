"""The keys that sign bindings and cursors: one set in the database for all gateways, and what this one knows of it.

A new key waits before it signs, longer than any gateway takes to learn of it; an old one stays until everything that it
signed has expired. So a token of one gateway is good at every other, whatever is rotated meanwhile.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import asyncpg

from shared.contracts.errors import RequestFailed
from shared.database import LOST
from shared.tokens import LIFETIME_SECONDS, MICROSECONDS, is_signed, new_key

logger = logging.getLogger(__name__)

ROTATION_SECONDS = 7 * 24 * 3600
"""Age of the newest key at which the next one is made."""

REFRESH_SECONDS = 20.0
"""How often a gateway looks at the keys."""

LEAD_SECONDS = 60
"""How long a key waits before it signs: two looks of every gateway, and one that failed."""

RETIRED_SECONDS = LEAD_SECONDS + LIFETIME_SECONDS + LEAD_SECONDS
"""Age of a key at which the one before it goes: that one signed until all had changed to this, and then its last token
lived its time.
"""

REREAD_SECONDS = 1.0
"""Least time between two looks that tokens of an unknown key cause, however many come."""

RETRY_SECONDS = 1.0
"""Pause before a gateway that has no key yet asks again."""

# Conflicts with itself and with other writers, not with readers: of several gateways that find a key due, one makes it.
_LOCK: Final = "LOCK TABLE gateway.token_keys IN SHARE ROW EXCLUSIVE MODE"

_MAKE: Final = """
INSERT INTO gateway.token_keys (secret)
SELECT $1 WHERE NOT EXISTS
       (SELECT FROM gateway.token_keys WHERE created_at > clock_timestamp() - make_interval(secs => $2))
"""

_REMOVE: Final = """
DELETE FROM gateway.token_keys old WHERE EXISTS
       (SELECT FROM gateway.token_keys newer
         WHERE newer.id > old.id AND newer.created_at < clock_timestamp() - make_interval(secs => $1))
"""

# The database's clock alone decides about keys: gateways' own may differ.
_READ: Final = """
SELECT secret, clock_timestamp() - make_interval(secs => $1) > created_at AS signs
  FROM gateway.token_keys ORDER BY id DESC
"""


@dataclass(frozen=True, slots=True)
class Keys:
    """Signing keys, newest first. `signing` is None only where there is no key at all."""

    signing: bytes | None = None
    verifying: tuple[bytes, ...] = ()


class Keyring:
    """The keys as this gateway knows them. `clock`: seconds that only go on."""

    def __init__(self, database: asyncpg.Pool, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._keys = Keys()
        self._reading = asyncio.Lock()
        self._reread_at = -math.inf

    @property
    def signing(self) -> bytes:
        """The key that signs. Raises RequestFailed while none is known."""
        if self._keys.signing is None:
            raise RequestFailed("unavailable", "the signing keys could not be read yet; ask again")
        return self._keys.signing

    @property
    def verifying(self) -> tuple[bytes, ...]:
        """Every key whose tokens may still be alive."""
        return self._keys.verifying

    async def run(self) -> None:
        """Makes, removes and reads keys as they come due, until it is cancelled."""
        while True:
            try:
                await self.refresh()
            except LOST as error:
                logger.warning("the signing keys could not be read (%s)", type(error).__name__)
            await asyncio.sleep(REFRESH_SECONDS if self._keys.verifying else RETRY_SECONDS)

    async def refresh(self) -> None:
        """Makes the key that is due, removes those that have had their time, and reads what there is."""
        async with self._database.acquire() as connection, connection.transaction():
            await connection.execute(_LOCK)
            await connection.execute(_MAKE, new_key(), float(ROTATION_SECONDS))
            await connection.execute(_REMOVE, float(RETIRED_SECONDS))
            self._keys = _keys_of(await connection.fetch(_READ, float(LEAD_SECONDS)))

    async def rotate(self) -> None:
        """Makes a key now. It signs once every gateway knows it."""
        async with self._database.acquire() as connection, connection.transaction():
            await connection.execute(_LOCK)
            await connection.execute("INSERT INTO gateway.token_keys (secret) VALUES ($1)", new_key())

    async def learn(self, token: str) -> None:
        """Looks at the keys again if none that is known here signed the token, at most once a second.

        Needed only where somebody emptied the table: keys are known everywhere before they sign. Raises RequestFailed
        when the database does not answer.
        """
        if is_signed(token, self.verifying):
            return
        async with self._reading:
            if self._clock() - self._reread_at < REREAD_SECONDS:
                return
            self._reread_at = self._clock()
            try:
                self._keys = _keys_of(await self._database.fetch(_READ, float(LEAD_SECONDS)))
            except LOST:
                raise RequestFailed("unavailable", "the signing keys could not be read; ask again") from None


def _keys_of(rows: list[asyncpg.Record]) -> Keys:
    """`rows`: newest first. Where none has waited long enough, the oldest signs: it is the one that most know."""
    if not rows:
        return Keys()
    signing = next((row["secret"] for row in rows if row["signs"]), rows[-1]["secret"])
    return Keys(signing, tuple(row["secret"] for row in rows))


def now_microseconds() -> int:
    """The time that tokens are issued and judged at."""
    return int(time.time() * MICROSECONDS)
