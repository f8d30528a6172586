"""Waiting for a revision's receipt: whoever changes a session can wait until this gateway has told its scopes."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Delivery:
    """The intervals of one session that have been told here since somebody began to wait."""

    def __init__(self) -> None:
        self._intervals: list[tuple[int, int]] = []
        self._news = asyncio.Event()

    def note(self, base: int, revision: int) -> None:
        """Scopes were told the interval (base, revision]."""
        self._intervals.append((base, revision))
        self._news.set()

    async def of(self, revision: int) -> None:
        """Returns once an interval that holds this revision was told. A later one proves nothing: this one's receipt
        may be lost.
        """
        await self.until(lambda: any(base < revision <= end for base, end in self._intervals))

    async def until(self, holds: Callable[[], bool]) -> None:
        """Returns once that holds, which is looked at now and whenever an interval was told."""
        while not holds():
            self._news.clear()
            await self._news.wait()


class Deliveries:
    """Who waits for which session's receipts."""

    def __init__(self) -> None:
        self._awaited: dict[str, set[Delivery]] = {}

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._awaited

    @contextmanager
    def of(self, session_id: str) -> Iterator[Delivery]:
        """Takes note of the session's receipts for as long as the block runs: enter it before the change is made."""
        delivery = Delivery()
        self._awaited.setdefault(session_id, set()).add(delivery)
        try:
            yield delivery
        finally:
            waiting = self._awaited[session_id]
            waiting.discard(delivery)
            if not waiting:
                del self._awaited[session_id]

    def note(self, session_id: str, base: int, revision: int) -> None:
        """Scopes of the session were told the interval (base, revision]."""
        for delivery in self._awaited.get(session_id, ()):
            delivery.note(base, revision)
