"""Frames held for one scope until the page that they continue is there (C4)."""

from dataclasses import dataclass

from client.frames import Change
from shared.contracts.receipts import MAX_OPERATIONS, MAX_RECEIPT_BYTES

BUFFER_SECONDS = 1.0
"""Longest wait of a buffered frame: later than this, a fresh page is there sooner than the bridge to an old one."""

BUFFER_OPERATIONS = MAX_OPERATIONS
"""Most operations in a buffer: no more than the gateway would put into one frame."""

BUFFER_BYTES = MAX_RECEIPT_BYTES
"""Most bytes in a buffer, as received."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """Frames in the order in which they came. `since`: when the first of them did."""

    frames: tuple[Change, ...] = ()
    operations: int = 0
    size: int = 0
    since: float | None = None

    def adding(self, frame: Change, now: float) -> "Buffer | None":
        """The buffer with one more frame; None when it would pass a limit. Time is watched apart, by `due`."""
        operations, size = self.operations + len(frame.operations), self.size + frame.size
        if operations > BUFFER_OPERATIONS or size > BUFFER_BYTES:
            return None
        return Buffer((*self.frames, frame), operations, size, now if self.since is None else self.since)

    @property
    def due(self) -> float | None:
        """When the first frame will have waited too long."""
        return None if self.since is None else self.since + BUFFER_SECONDS
