"""Pages that were read a moment ago, for the next read of the same page to be compared with (G8)."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from shared.contracts.reads import PageAnswer, PageRead

KEPT_SECONDS = 10.0
"""How long a page stays after it was read, or found unchanged: for a storm, since nothing else profits from it."""

KEPT_BYTES = 16 << 20
"""Most bytes of pages that stay, as JSON; as rows in memory they are a few times that."""

PageT = TypeVar("PageT", bound=PageRead)
AnswerT = TypeVar("AnswerT", bound=PageAnswer)


@dataclass(frozen=True, slots=True)
class _Kept(Generic[AnswerT]):
    answer: AnswerT
    size: int
    until: float


class KeptPages(Generic[PageT, AnswerT]):
    """The pages read last, bounded by their bytes and age. Never an answer by themselves: a reader says whether they
    still are what it would read.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pages: OrderedDict[PageT, _Kept[AnswerT]] = OrderedDict()
        self._size = 0

    def find(self, page: PageT) -> AnswerT | None:
        """The answer that this page had, if it is still here."""
        self._drop_old()
        kept = self._pages.get(page)
        return None if kept is None else kept.answer

    def keep(self, page: PageT, answer: AnswerT, size: int) -> None:
        """Keeps an answer of so many bytes in place of the page's earlier one. One that has no room is not kept."""
        self._forget(page)
        self._drop_old()
        if size > KEPT_BYTES:
            return
        while self._size + size > KEPT_BYTES:
            self._forget(next(iter(self._pages)))
        self._pages[page] = _Kept(answer, size, self._clock() + KEPT_SECONDS)
        self._size += size

    def renew(self, page: PageT) -> None:
        """Lets a page stay that was found unchanged."""
        if (kept := self._pages.get(page)) is not None:
            self.keep(page, kept.answer, kept.size)

    def _drop_old(self) -> None:
        now = self._clock()
        while self._pages and (oldest := next(iter(self._pages.items())))[1].until <= now:
            self._forget(oldest[0])

    def _forget(self, page: PageT) -> None:
        kept = self._pages.pop(page, None)
        if kept is not None:
            self._size -= kept.size
