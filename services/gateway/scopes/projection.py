"""A receipt seen through a scope's filter (pure)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import orjson

from services.gateway.scopes.rows import core_message, core_turn, plugin_message, plugin_turn
from shared.contracts.receipts import MAX_OPERATIONS, MAX_RECEIPT_BYTES, ChangeReceipt, Operation, Selection
from shared.contracts.rows import AuthorType, Entity

Form = Literal["core", "plugin"]
"""How rows look to first-party consumers, and to plugins."""


EVERYBODY: frozenset[AuthorType] = frozenset()
"""No filter by author. One for all views: each other empty set would be 216 bytes of its scope."""


@dataclass(frozen=True, slots=True)
class View:
    """What a scope shows of its session. Scopes with equal views share every projection.

    `task_id`: only rows of this task; `None` for every task. `authors`: only messages by these; empty for all. Turns
    have no author. `rows`: how rows look. Views of first-party consumers and of plugins are never equal; those of two
    plugins may be, as their rows are the same.
    """

    session_id: str
    task_id: str | None = None
    authors: frozenset[AuthorType] = EVERYBODY
    rows: Form = "core"

    def selects(self, entity: Entity, selection: Selection) -> bool:
        """Whether a row with this selection is shown."""
        if selection.session_id != self.session_id:
            return False
        if self.task_id is not None and selection.task_id != self.task_id:
            return False
        return entity == "turn" or not self.authors or selection.author_type in self.authors


@dataclass(frozen=True, slots=True)
class Projected:
    """One operation as a scope may see it: the row it concerns, and the operation's JSON."""

    entity: Entity
    id: str
    encoded: bytes


@dataclass(frozen=True, slots=True)
class Projection:
    """An interval seen through a view. `operations` is empty for coverage, and `None` where the consumer must reset."""

    base: int
    revision: int
    operations: tuple[Projected, ...] | None

    @property
    def size(self) -> int:
        """Bytes of the encoded operations."""
        return sum(len(operation.encoded) for operation in self.operations or ())


def project(receipt: ChangeReceipt, view: View) -> Projection:
    """What the receipt means for scopes of this view alone: see `Viewing`."""
    return Viewing(receipt).through(view)


class Viewing:
    """A receipt on its way to the views of its session. Each row is encoded once in each form, however many views show
    it.

    A row that the view selects is an upsert, whether it was shown before or enters now. A row that it no longer selects
    is a remove if it may have been shown before. An incomplete receipt, one that lacks a row, or one whose projection
    would be too large for a frame, is a reset.
    """

    def __init__(self, receipt: ChangeReceipt) -> None:
        self.receipt = receipt
        self._is_told = receipt.complete and not any(_lacks_row(operation) for operation in receipt.operations)
        self._rows = [(operation, _selection(operation)) for operation in receipt.operations if self._is_told]
        self._upserts: dict[tuple[int, Form], bytes] = {}

    def through(self, view: View) -> Projection:
        """What it means for scopes of a view."""
        told = tuple(self._operations(view))
        projected = Projection(self.receipt.base_revision, self.receipt.revision, told)
        if self._is_told and len(told) <= MAX_OPERATIONS and projected.size <= MAX_RECEIPT_BYTES:
            return projected
        return Projection(projected.base, projected.revision, None)

    def _operations(self, view: View) -> Iterator[Projected]:
        for place, (operation, current) in enumerate(self._rows):
            if current is not None and view.selects(operation.entity, current):
                yield Projected(operation.entity, operation.id, self._upsert(place, operation, view.rows))
            elif _may_be_shown(operation, view):
                yield Projected(operation.entity, operation.id, _remove(operation))

    def _upsert(self, place: int, operation: Operation, form: Form) -> bytes:
        if (known := self._upserts.get((place, form))) is None:
            known = self._upserts[place, form] = _upsert(operation, form)
        return known


def _may_be_shown(operation: Operation, view: View) -> bool:
    """Whether the view may show the row as it was before. Unknown: a row that is gone may; one that is new cannot."""
    if operation.previous is None:
        return operation.kind == "remove"
    return view.selects(operation.entity, operation.previous)


def _lacks_row(operation: Operation) -> bool:
    row = operation.message if operation.entity == "message" else operation.turn
    return operation.kind == "upsert" and row is None


def _selection(operation: Operation) -> Selection | None:
    """Where the row stands at the receipt's revision; `None` for a row that is gone."""
    if operation.kind == "remove":
        return None
    if operation.entity == "message" and (message := operation.message) is not None:
        return Selection(session_id=message.session_id, task_id=message.task_id, author_type=message.author_type)
    if operation.entity == "turn" and (turn := operation.turn) is not None:
        return Selection(session_id=turn.session_id, task_id=turn.task_id)
    return None


def _upsert(operation: Operation, form: Form) -> bytes:
    core = form == "core"
    body: dict[str, object] = {"kind": "upsert", "entity": operation.entity, "id": operation.id}
    if operation.entity == "message" and (message := operation.message) is not None:
        body["message"] = core_message(message) if core else plugin_message(message)
    elif operation.entity == "turn" and (turn := operation.turn) is not None:
        body["turn"] = core_turn(turn) if core else plugin_turn(turn)
    return orjson.dumps(body)


def _remove(operation: Operation) -> bytes:
    return orjson.dumps({"kind": "remove", "entity": operation.entity, "id": operation.id})
