"""Which reads a reader takes on, and in which order (pure).

A read that could only be answered late is refused at once, with the time after which asking again is worth while: late
answers are work for nobody. Askers take turns, so that one gateway's storm costs another nothing but half of the pace.
"""

import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass

from shared.contracts.errors import RequestFailed
from shared.contracts.reads import (
    HostMessages,
    MessagesPage,
    Read,
    ReadRequest,
    RevisionCheck,
    SessionSearch,
    TurnsPage,
)

PAGE_COST = 4
"""Of a page without rows: what any page may weigh in memory while it is in hand does not depend on their number."""

ROWS_PER_COST = 20
UNLIMITED_COST = 16
"""Of a page that only its bytes end, of at most 8 MiB, and of a search through a session."""

SESSIONS_PER_COST = 50
"""Of a check: looked up by primary key."""

MEMORY = 0.98
"""How much of what was measured still counts after one more read: about the last fifty do."""

FIRST_COST = 250
"""What a reader has carried out in no time, as it were, before anything is measured: about fifty pages. Its first reads
open connections, and say little of the next ones.
"""

LONGEST_SECONDS = 1.0
"""What the time between two reads that are done counts for at most: after a database that stood still, the pace is what
it was before.
"""


def cost_of(read: Read) -> int:
    """What a read costs, roughly, in units of a single look by primary key."""
    match read:
        case MessagesPage() | TurnsPage() | HostMessages():
            return UNLIMITED_COST if read.limit is None else PAGE_COST + read.limit // ROWS_PER_COST
        case SessionSearch():
            return UNLIMITED_COST
        case RevisionCheck():
            return 1 + len(read.sessions) // SESSIONS_PER_COST
        case _:
            return 1


class Pace:
    """How long a unit of cost takes, measured while there is always something to do."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seconds = 0.0
        self._cost = float(FIRST_COST)
        self._since: float | None = None

    def finished(self, cost: int, *, busy: bool) -> None:
        """A read is done. `busy`: others are waiting, so that the time until the next one is done is work."""
        now = self._clock()
        if self._since is not None:
            self._seconds = self._seconds * MEMORY + min(now - self._since, LONGEST_SECONDS)
            self._cost = self._cost * MEMORY + cost
        self._since = now if busy else None

    def seconds(self, cost: int) -> float:
        """How long this takes at the present pace."""
        return cost * self._seconds / self._cost


@dataclass(frozen=True, slots=True, eq=False)
class Admitted:
    """A read that is waiting, at work or at rest."""

    request: ReadRequest
    cost: int


class Lane:
    """Reads of one kind: at work at most `at_work` of cost, or one that is larger; waiting at most `waiting`, of which
    each asker has an equal part. `wall`: seconds since 1970, as deadlines are told.
    """

    def __init__(
        self, at_work: int, waiting: int, pace: Pace | None = None, wall: Callable[[], float] = time.time
    ) -> None:
        self._at_work = at_work
        self._most_waiting = waiting
        self._pace = Pace() if pace is None else pace
        self._wall = wall
        self._queues: OrderedDict[str, deque[Admitted]] = OrderedDict()
        self._waiting: dict[str, int] = {}
        self._working = 0
        self._resting: set[Admitted] = set()
        self._returning: deque[Admitted] = deque()

    @property
    def busy(self) -> bool:
        """Whether reads are waiting."""
        return bool(self._queues or self._returning)

    @property
    def waiting(self) -> int:
        """Cost of the reads that wait for their first turn."""
        return sum(self._waiting.values())

    @property
    def working(self) -> int:
        """Cost of the reads at work."""
        return self._working

    def offer(self, request: ReadRequest) -> None:
        """Takes a read on, to wait for its turn. Raises RequestFailed `unavailable` for one that could not be answered
        in time.
        """
        asker, cost = request.reply_to, cost_of(request.read)
        own = self._waiting.get(asker, 0) + cost
        askers = len(self._waiting.keys() | {asker})
        ahead = sum(min(each, own) for name, each in self._waiting.items() if name != asker)
        expected = self._pace.seconds(self._working + ahead + own)
        full = own > self._most_waiting // askers and own > cost
        # The next in line is always taken on: only reads that are carried out measure the pace anew.
        late = self.busy and self._wall() + expected > request.deadline / 1000
        if full or late:
            again = max(1, round(self._pace.seconds(ahead + own)))
            raise RequestFailed("unavailable", "too many reads are waiting; ask again", retry_after=again)
        self._queues.setdefault(asker, deque()).append(Admitted(request, cost))
        self._waiting[asker] = own

    def next(self) -> Admitted | None:
        """The read whose turn it is, if it can be begun now; then it is at work until `finished`."""
        if self._returning:
            return self._next_returning()
        if not self._queues:
            return None
        asker, queue = next(iter(self._queues.items()))
        if not self._fits(queue[0]):
            return None
        admitted = queue.popleft()
        self._waiting[asker] -= admitted.cost
        if queue:
            self._queues.move_to_end(asker)
        else:
            del self._queues[asker], self._waiting[asker]
        self._working += admitted.cost
        return admitted

    def rests(self, admitted: Admitted) -> None:
        """A read that is at work waits for its source: others may work instead, for as long as it takes."""
        self._resting.add(admitted)
        self._working -= admitted.cost

    def returns(self, admitted: Admitted) -> None:
        """A read has rested: `next` gives it back before any that has not begun."""
        self._returning.append(admitted)

    def finished(self, admitted: Admitted) -> None:
        """A read is no longer at work, nor will it be."""
        if admitted in self._resting:
            self._resting.remove(admitted)
            if admitted in self._returning:
                self._returning.remove(admitted)
            return
        self._working -= admitted.cost
        self._pace.finished(admitted.cost, busy=self.busy)

    def _next_returning(self) -> Admitted | None:
        if not self._fits(self._returning[0]):
            return None
        admitted = self._returning.popleft()
        self._resting.remove(admitted)
        self._working += admitted.cost
        return admitted

    def _fits(self, admitted: Admitted) -> bool:
        return not self._working or self._working + admitted.cost <= self._at_work
