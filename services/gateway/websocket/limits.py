"""How many connections a gateway has at a time, and how many scopes (pure)."""

from collections import Counter
from types import TracebackType
from typing import Self

from shared.contracts.errors import RequestFailed

MAX_SCOPES = 256
"""Open scopes of one connection."""


class Place:
    """One connection's place until the end of a `with` block, and how many scopes are held there.

    `holder`: whose scopes they are, on all of their connections.
    """

    __slots__ = ("_address", "_holder", "_limits", "_scopes", "_user")

    def __init__(self, limits: "Limits", address: str, user: str, holder: str) -> None:
        self._limits = limits
        self._address = address
        self._user = user
        self._holder = holder
        self._scopes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()
        self._limits.leave(self._address, self._user)

    def take_scope(self) -> None:
        """Counts one more scope. Raises RequestFailed `limit_exceeded` when the connection or the holder has enough."""
        if self._scopes >= MAX_SCOPES:
            raise RequestFailed("limit_exceeded", f"a connection may have {MAX_SCOPES} scopes")
        self._limits.take_scope(self._holder)
        self._scopes += 1

    def leave_scope(self) -> None:
        """Counts one scope less."""
        self._scopes -= 1
        self._limits.leave_scope(self._holder)

    def leave(self) -> None:
        """Counts none of the scopes any more."""
        while self._scopes:
            self.leave_scope()


class Limits:
    """Counts the connections of this process: all, those of each address, and those of each user; and the scopes of
    each user.

    `user`: `None` where everybody is one user; scopes are counted by address there. `scopes`: of one holder.
    """

    def __init__(self, *, everybody: int, address: int, user: int | None, scopes: int) -> None:
        self._everybody = everybody
        self._address = address
        self._user = user
        self._most_scopes = scopes
        self._total = 0
        self._addresses: Counter[str] = Counter()
        self._users: Counter[str] = Counter()
        self._scopes: Counter[str] = Counter()

    @property
    def scopes(self) -> int:
        """All scopes that are counted."""
        return self._scopes.total()

    def place(self, address: str, user: str) -> Place:
        """A place for one connection, taken at once, and left at the end of the `with` block that it is for. Raises
        RequestFailed: `unavailable` when this process has none left for anybody, which another gateway may have;
        `limit_exceeded` when the address or the user has enough.
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
        return Place(self, address, user, address if self._user is None else user)

    def leave(self, address: str, user: str) -> None:
        """Counts one connection less."""
        self._total -= 1
        _leave(self._addresses, address)
        _leave(self._users, user)

    def take_scope(self, holder: str) -> None:
        """Counts one more scope of a holder. Raises RequestFailed `limit_exceeded` when that one has enough."""
        if self._scopes[holder] >= self._most_scopes:
            raise RequestFailed(
                "limit_exceeded", f"there may be {self._most_scopes} scopes, on all connections together"
            )
        self._scopes[holder] += 1

    def leave_scope(self, holder: str) -> None:
        """Counts one scope of a holder less."""
        _leave(self._scopes, holder)


def _leave(counts: Counter[str], key: str) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
