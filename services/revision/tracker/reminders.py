"""A fault that lasts is logged when it begins and then now and then, however often it is noticed."""

from collections.abc import Hashable
from typing import Final

REMIND_SECONDS: Final = 60.0
"""A fault that is still there is logged again after this time."""


class Reminders:
    """The lines about one thing. What a line is `about` names the fault without what changes from look to look."""

    def __init__(self) -> None:
        self._about: Hashable = None
        self._at: float | None = None

    def due(self, about: Hashable, now: float) -> bool:
        """Whether to log now (seconds of a clock that never goes back): another fault, or a minute of the same one."""
        due = self._at is None or about != self._about or now - self._at >= REMIND_SECONDS
        if due:
            self._about, self._at = about, now
        return due

    def over(self) -> None:
        """The fault is gone: the next one is logged at once."""
        self._about, self._at = None, None
