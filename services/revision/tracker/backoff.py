"""Pauses between attempts: short after a long success, longer with every quick failure."""

import random
from typing import Final

LEAST_PAUSE: Final = 0.05
MOST_PAUSE: Final = 1.0
"""Bounds of a pause, in seconds. Half of each is random, so that replicas do not march in step."""


class Backoff:
    """The pauses of one loop."""

    def __init__(self) -> None:
        self._pause = LEAST_PAUSE

    def after(self, lasted: float) -> float:
        """How long to wait after an attempt that lasted so many seconds."""
        pause = LEAST_PAUSE if lasted > MOST_PAUSE else self._pause
        self._pause = min(2 * pause, MOST_PAUSE)
        return pause * random.uniform(0.5, 1)
