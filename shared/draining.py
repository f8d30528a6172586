"""What a process does between the order to stop and its end: it says that it is not ready any more, takes nothing new,
and finishes what it has in hand.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from shared.settings import Settings

logger = logging.getLogger(__name__)

ENDING_SECONDS = 5.0
"""How much longer than its settings say a drain may take before the process stops all the same."""

Step = Callable[[], Awaitable[None]]


class Draining:
    """One process's drain. `seconds`: how long it may take at most."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._step: Step | None = None
        self.begun = False
        """Whether the order was given: from then on the process is not ready."""

    @classmethod
    def of(cls, settings: Settings) -> "Draining":
        """The drain that these settings ask for."""
        return cls(settings.drain_pause + settings.drain_seconds + ENDING_SECONDS)

    @asynccontextmanager
    async def by(self, step: Step) -> AsyncIterator[None]:
        """Within the block the process serves, and `step` is what it does when it is told to stop."""
        self._step = step
        try:
            yield
        finally:
            self._step = None

    def reasons(self) -> dict[str, str]:
        """What it adds to the reasons for not being ready."""
        return {"draining": "it was told to stop; others take over"} if self.begun else {}

    async def run(self) -> None:
        """Carries out the step, if there is one, within its time. Whatever becomes of it, the process stops then."""
        self.begun = True
        if self._step is None:
            return
        try:
            async with asyncio.timeout(self._seconds):
                await self._step()
        except TimeoutError:
            logger.warning("not drained within %.0f s; what is left is dropped", self._seconds)
        except Exception:
            logger.exception("draining failed; what is left is dropped")
