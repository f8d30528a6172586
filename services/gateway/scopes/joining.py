"""Joining adjacent intervals into fewer frames, and when a frame may leave (G5; pure)."""

from collections import deque
from collections.abc import Iterator, Sequence

from services.gateway.scopes.projection import Projected, Projection
from shared.contracts.receipts import MAX_OPERATIONS, MAX_RECEIPT_BYTES
from shared.contracts.rows import Entity

WINDOW_SECONDS = 0.1
"""Longest time that a change waits to be joined with its successors."""

CALM_CHANGES = 4
"""Changes of one view within a window that leave at once: up to 40 a second, which covers an agent's joined appends,
nothing waits.
"""


class Pace:
    """Decides when a view's next change may leave: at once while the session is calm, at the window's end when it is
    not.
    """

    def __init__(self) -> None:
        self._left: deque[float] = deque(maxlen=CALM_CHANGES)

    def due(self, now: float) -> float:
        """The time at which a change that arrives now should leave; not later than `now` means at once."""
        if len(self._left) < CALM_CHANGES or now - self._left[0] >= WINDOW_SECONDS:
            return now
        return self._left[-1] + WINDOW_SECONDS

    def left(self, now: float) -> None:
        """Takes note that a frame left."""
        self._left.append(now)


def join(changes: Sequence[Projection]) -> Iterator[Projection]:
    """Joins changes into as few as fit in a frame.

    The changes are in order. Neighbours are joined only where one begins at the revision at which the other ends, and
    never with a reset. Per row the last
    operation is kept as it was projected, a remove of a row that the scope may never have had included: comparing only
    the first with the last state
    would lose a row that left and came back in between. Rows keep the order of their last operation, and no other is
    counted among the bytes: a large message that grows piece by piece fits as often as it grew.
    """
    group: list[Projection] = []
    sizes: dict[tuple[Entity, str], int] = {}
    size = 0
    for change in changes:
        added = {(operation.entity, operation.id): len(operation.encoded) for operation in change.operations or ()}
        more = sum(row not in sizes for row in added)
        larger = sum(length - sizes.get(row, 0) for row, length in added.items())
        fits = (
            group
            and change.operations is not None
            and group[-1].operations is not None
            and group[-1].revision == change.base
            and len(sizes) + more <= MAX_OPERATIONS
            and size + larger <= MAX_RECEIPT_BYTES
        )
        if group and not fits:
            yield _joined(group)
            group, sizes, size, larger = [], {}, 0, sum(added.values())
        group.append(change)
        sizes.update(added)
        size += larger
    if group:
        yield _joined(group)


def _joined(group: Sequence[Projection]) -> Projection:
    if len(group) == 1:
        return group[0]
    last: dict[tuple[str, str], Projected] = {}
    for change in group:
        for operation in change.operations or ():
            last.pop((operation.entity, operation.id), None)
            last[(operation.entity, operation.id)] = operation
    return Projection(group[0].base, group[-1].revision, tuple(last.values()))


def above(changes: Sequence[Projection], revision: int) -> Sequence[Projection]:
    """The changes that a scope at this revision lacks: joined frames are cut at the scope's own revision."""
    for index, change in enumerate(changes):
        if change.revision > revision:
            return changes[index:]
    return ()
