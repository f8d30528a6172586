"""Passwords: which are taken, how they are stored, and what checking one costs."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from services.gateway.identity.texts import password_bytes
from shared.contracts.errors import RequestFailed

LEAST_CHARACTERS = 8
MOST_BYTES = 1024
"""Bounds of a password: short ones are guessed, and a long one costs only its sender something."""

AT_A_TIME = 2
"""Passwords hashed at the same time. Each takes a core and 19 MiB for some ten milliseconds; sign-ins in any number
wait for each other, and the live path keeps its share.
"""

_HASHER = PasswordHasher(time_cost=2, memory_cost=19 << 10, parallelism=1)
"""argon2id with the parameters that OWASP's cheat sheet puts first for servers. Stored hashes name theirs: others are
still verified, and replaced at the next sign-in.
"""

_NOBODYS = f"$argon2id$v=19$m={_HASHER.memory_cost},t={_HASHER.time_cost},p={_HASHER.parallelism}${'A' * 22}${'A' * 43}"
"""No password's hash, and as costly to compare with as one."""

_T = TypeVar("_T")


def require_password(password: str) -> None:
    """Raises RequestFailed `invalid_query` for what cannot be a password here."""
    if len(password) < LEAST_CHARACTERS:
        raise RequestFailed("invalid_query", f"a password has at least {LEAST_CHARACTERS} characters")
    if len(password.encode(errors="surrogatepass")) > MOST_BYTES:
        raise RequestFailed("invalid_query", f"a password has at most {MOST_BYTES} bytes")


class Passwords:
    """Hashes and verifies in threads, a few at a time."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(AT_A_TIME)

    async def hashed(self, password: str) -> str:
        """The text to store. Raises RequestFailed for what cannot be a password."""
        require_password(password)
        return await self._in_turn(lambda: _HASHER.hash(password_bytes(password)))

    async def matches(self, stored: str | None, password: str) -> bool:
        """Whether this is the password. Without one to compare with: no, for the same work."""
        return await self._in_turn(lambda: _verified(stored or _NOBODYS, password)) and stored is not None

    async def _in_turn(self, work: Callable[[], _T]) -> _T:
        async with self._turns:
            return await asyncio.to_thread(work)


def is_outdated(stored: str) -> bool:
    """Whether the hash was made with other parameters than are used now."""
    return _HASHER.check_needs_rehash(stored)


def _verified(stored: str, password: str) -> bool:
    try:
        return _HASHER.verify(stored, password_bytes(password))
    except (VerificationError, InvalidHashError):
        return False
