"""What is known to be stored of a session, and since when (pure)."""

from bisect import bisect_right


class Acknowledged:
    """Revisions as writes were acknowledged, none below the one before, each with its time."""

    def __init__(self) -> None:
        self._revisions: list[int] = []
        self._times: list[float] = []

    def __len__(self) -> int:
        return len(self._revisions)

    def add(self, revision: int, at: float) -> None:
        """Notes an acknowledgement."""
        self._revisions.append(revision)
        self._times.append(at)

    @property
    def newest(self) -> int:
        """The newest revision; 0 before the first."""
        return self._revisions[-1] if self._revisions else 0

    def first_above(self, revision: int) -> float | None:
        """When the first change above this revision was acknowledged; None: there is none."""
        place = bisect_right(self._revisions, revision)
        return self._times[place] if place < len(self._times) else None
