"""How many connections a gateway has at a time (pure)."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from shared.contracts.errors import RequestFailed


class Limits:
    """Counts the connections of this process: all, those of each address, and those of each user.

    `user`: `None` where everybody is one user.
    """

    def __init__(self, *, everybody: int, address: int, user: int | None) -> None:
        self._everybody = everybody
        self._address = address
        self._user = user
        self._total = 0
        self._addresses: Counter[str] = Counter()
        self._users: Counter[str] = Counter()

    @contextmanager
    def place(self, address: str, user: str) -> Iterator[None]:
        """A place for one connection within the block. Raises RequestFailed: `unavailable` when this process has none
        left for anybody, which another gateway may have; `limit_exceeded` when the address or the user has enough.
        """
        if self._total >= self._everybody:
            raise RequestFailed("unavailable", f"this gateway has {self._everybody} connections and takes no more")
        if self._addresses[address] >= self._address:
            raise RequestFailed("limit_exceeded", f"an address may have {self._address} connections to a gateway")
        if self._user is not None and self._users[user] >= self._user:
            raise RequestFailed("limit_exceeded", f"a user may have {self._user} connections to a gateway")
        self._total += 1
        self._addresses[address] += 1
        self._users[user] += 1
        try:
            yield
        finally:
            self._total -= 1
            _leave(self._addresses, address)
            _leave(self._users, user)


def _leave(counts: Counter[str], key: str) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
