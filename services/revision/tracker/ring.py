"""What a standby has seen last, to be published again when it takes over."""

from collections import deque
from typing import Final

from services.revision.tracker.drafts import Transaction

RING_SECONDS: Final = 3.0
"""A dead leader's lock is free within milliseconds, and the next one asks for it every 250 ms: ten times that."""

RING_BYTES: Final = 16 << 20
"""Most bytes of rows kept (16 MiB). A single transaction over it is not kept at all: its sessions show a gap and are
read again.
"""


class Ring:
    """The last transactions, bounded by age and size. It belongs to one slot and dies with it (R2)."""

    def __init__(self, seconds: float = RING_SECONDS, most: int = RING_BYTES) -> None:
        self._seconds = seconds
        self._most = most
        self._kept: deque[tuple[float, Transaction]] = deque()
        self._size = 0

    @property
    def size(self) -> int:
        """Bytes of rows kept, estimated."""
        return self._size

    def add(self, transaction: Transaction, now: float) -> None:
        """Keeps one more, received at `now` (seconds of a clock that never goes back)."""
        self._kept.append((now, transaction))
        self._size += transaction.size
        self._forget(now)

    def drain(self, now: float) -> list[Transaction]:
        """Everything still young enough, in order; the ring is empty afterwards."""
        self._forget(now)
        kept = [transaction for _, transaction in self._kept]
        self._kept.clear()
        self._size = 0
        return kept

    def _forget(self, now: float) -> None:
        while self._kept and (now - self._kept[0][0] > self._seconds or self._size > self._most):
            self._size -= self._kept.popleft()[1].size
