"""What an entry's term and sequence say about entries that did not arrive (T2; pure)."""

from collections import OrderedDict
from enum import Enum

REMEMBERED_TERMS = 4
"""Terms per partition whose sequences are followed: a zombie leader's entries can mingle with its successor's for a
moment.
"""


class Arrival(Enum):
    """How an entry follows those before it."""

    IN_ORDER = "in order"
    REPEATED = "repeated"
    AFTER_LOSS = "after loss"


class Sequence:
    """Follows the sequences of one partition."""

    def __init__(self) -> None:
        self._last: OrderedDict[int, int] = OrderedDict()

    def observe(self, term: int, sequence: int) -> Arrival:
        """Takes note of an entry.

        Any change of term counts as a loss: the earlier leader may have published less than it decoded. The first entry
        that a process sees at all does
        not: it has nothing yet that could have been lost.
        """
        last = self._last.get(term)
        if last is None:
            just_started = not self._last
            self._last[term] = sequence
            while len(self._last) > REMEMBERED_TERMS:
                self._last.popitem(last=False)
            return Arrival.IN_ORDER if just_started else Arrival.AFTER_LOSS
        if sequence <= last:
            return Arrival.REPEATED
        self._last[term] = sequence
        return Arrival.IN_ORDER if sequence == last + 1 else Arrival.AFTER_LOSS

    def restart(self, term: int, sequence: int) -> None:
        """Takes note of a resync. It opens a term whatever its number: a restored database counts terms anew."""
        self._last.pop(term, None)
        self._last[term] = sequence
        while len(self._last) > REMEMBERED_TERMS:
            self._last.popitem(last=False)
