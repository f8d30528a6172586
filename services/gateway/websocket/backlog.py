"""What waits to be sent to one client, and who gives way when it is too much (pure)."""

from collections import deque
from dataclasses import dataclass
from typing import Protocol

MAX_BYTES = 2 << 20
"""Bytes that may wait: two of the largest frames."""

MAX_FRAMES = 1024
"""Frames that may wait: four of each scope that a connection may have."""


class Owner(Protocol):
    """Whose frames wait: a scope."""

    def lose_backlog(self) -> None:
        """Nothing of what waited for it will be sent."""


@dataclass(slots=True)
class _Share:
    """What waits of one owner."""

    size: int = 0
    frames: int = 0

    def part(self) -> float:
        """How much it is of what may wait, in bytes or in frames, whichever is more."""
        return max(self.size / MAX_BYTES, self.frames / MAX_FRAMES)


class Backlog:
    """A queue in order of arrival that its owners share.

    When it is full, whoever has most in it gives up all of that, and whoever keeps to little keeps its place: an owner
    that is told much cannot push out the others.
    """

    __slots__ = ("_shares", "_waiting", "size")

    def __init__(self) -> None:
        self._waiting: deque[tuple[bytes, Owner | None]] | None = None
        """None while nothing waits, as nearly always: an empty one would be 760 bytes of each connection."""
        self._shares: dict[Owner, _Share] = {}
        self.size = 0
        """Bytes that wait."""

    def __len__(self) -> int:
        """Frames that wait."""
        return 0 if self._waiting is None else len(self._waiting)

    def has_room(self, frames: int, size: int) -> bool:
        """Whether so many frames of `size` bytes in all fit beside what waits."""
        return self.size + size <= MAX_BYTES and len(self) + frames <= MAX_FRAMES

    def append(self, text: bytes, owner: Owner | None = None) -> None:
        """Takes a text whatever waits already. What has no owner never gives way."""
        if self._waiting is None:
            self._waiting = deque()
        self._waiting.append((text, owner))
        self.size += len(text)
        if owner is not None:
            share = self._shares.setdefault(owner, _Share())
            share.size += len(text)
            share.frames += 1

    def admit(self, text: bytes, owner: Owner) -> bool:
        """Takes a text, for which others may have to give way. `False`: it is its owner who has to, and none of what
        waited for that one is left.
        """
        own = self._shares.get(owner, _Share())
        asked = _Share(own.size + len(text), own.frames + 1).part()
        while not self.has_room(1, len(text)):
            most = max(self._shares, key=lambda each: self._shares[each].part(), default=owner)
            if most is owner or self._shares[most].part() <= asked:
                self._drop(owner)
                return False
            self._drop(most)
            most.lose_backlog()
        self.append(text, owner)
        return True

    def popleft(self) -> bytes:
        """Takes the text that came first. Raises IndexError when none waits."""
        if self._waiting is None:
            raise IndexError("nothing waits")
        text, owner = self._waiting.popleft()
        if not self._waiting:
            self._waiting = None
        self.size -= len(text)
        if owner is not None:
            share = self._shares[owner]
            share.size -= len(text)
            share.frames -= 1
            if not share.frames:
                del self._shares[owner]
        return text

    def clear(self) -> None:
        """Drops everything; nobody is told."""
        self._waiting = None
        self._shares.clear()
        self.size = 0

    def _drop(self, owner: Owner) -> None:
        if (share := self._shares.pop(owner, None)) is not None:
            self.size -= share.size
            self._waiting = deque(each for each in self._waiting or () if each[1] is not owner) or None
