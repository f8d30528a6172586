"""What a client missed while it was away, told from memory (G6)."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from pydantic import ValidationError

from services.gateway.scopes import frames
from services.gateway.scopes.joining import join
from services.gateway.scopes.memory import Memory
from services.gateway.scopes.projection import Projection, View, project
from services.gateway.scopes.scope import Scope
from shared.contracts.receipts import RECEIPT, ChangeReceipt

PROJECTED_BYTES = 4 << 20
"""Most bytes of projections, and of the receipts that they were made of, that are kept for whoever asks next."""

_OVERHEAD = 512


@dataclass(frozen=True, slots=True)
class Position:
    """The epoch and revision of the rows that a client holds."""

    epoch: str
    revision: int


Missed = Sequence[tuple[Projection, frames.Frame]]
"""Changes in order, each with its frame."""


class Earlier(Protocol):
    """Where receipts are found from before a session was followed here."""

    async def receipts_of(self, session_id: str) -> Sequence[bytes]:
        """A session's receipts of the last minute as JSON, in order; none where they cannot be had."""


class Resuming:
    """Decides whether a scope may go on where its client stopped.

    Clients that lost their connections together come back together, and mostly missed the same: what was projected for
    one is kept for the others.
    """

    def __init__(self, memory: Memory, earlier: Earlier) -> None:
        self._memory = memory
        self._earlier = earlier
        self._projected: OrderedDict[tuple[bytes, View], Projection] = OrderedDict()
        self._size = 0

    def missed(self, scope: Scope, held: Position, current: Position) -> Missed | None:
        """What leads a scope from the rows that its client holds to the revision just read; `None`: the client has to
        read.

        It is joined, though the scope is new: a client that holds rows reads no pages at revisions in between. Nothing
        is told by halves: an interval that can only be a reset refuses the whole, and so does a connection that has no
        room for it.
        """
        if held.epoch != current.epoch:
            return None
        receipts = self._memory.between(scope.session_id, held.revision, current.revision)
        if receipts is None:
            return None
        changes = []
        for receipt in receipts:
            change = self._project(receipt, scope.view)
            if change.operations is None:
                return None
            changes.append(change)
        missed = [(change, frames.change(scope.session_id, held.epoch, change)) for change in join(changes)]
        size = sum(len(frame.for_scope(scope.encoded_id)) for _, frame in missed)
        return missed if scope.consumer.has_room(len(missed), size) else None

    async def recall(self, session_id: str) -> None:
        """Remembers what was told of a session before it was followed here."""
        changes: list[tuple[ChangeReceipt, bytes]] = []
        for payload in await self._earlier.receipts_of(session_id):
            with suppress(ValidationError):  # it leaves a hole, as if it had never come
                receipt = RECEIPT.validate_json(payload)
                if isinstance(receipt, ChangeReceipt) and receipt.session_id == session_id:
                    changes.append((receipt, payload))
        self._memory.recall(session_id, changes, asyncio.get_running_loop().time())

    def _project(self, payload: bytes, view: View) -> Projection:
        key = payload, view
        if (known := self._projected.get(key)) is not None:
            return known
        receipt = RECEIPT.validate_json(payload)
        if not isinstance(receipt, ChangeReceipt):
            raise TypeError("changes alone are remembered")
        change = self._projected[key] = project(receipt, view)
        self._size += _cost(payload, change)
        while self._size > PROJECTED_BYTES:
            (oldest, _), dropped = self._projected.popitem(last=False)
            self._size -= _cost(oldest, dropped)
        return change


def _cost(payload: bytes, change: Projection) -> int:
    return len(payload) + change.size + _OVERHEAD
