"""What a `session.conversation.changed` notification says to one scope, in the order of rule C1."""

from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from client.range import row_of
from shared.contracts.receipts import MAX_OPERATIONS
from shared.contracts.wire import Changed, FrameOperation


@dataclass(frozen=True, slots=True)
class Foreign:
    """Of another scope or session: nothing to do."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """The session is gone, or no longer this reader's to see. Keep the rows and close."""


@dataclass(frozen=True, slots=True)
class Malformed:
    """Breaks the contract: whatever it meant to say is lost."""


@dataclass(frozen=True, slots=True)
class OtherEpoch:
    """Of a history whose revisions cannot be compared with those of the scope. `reset`: it is a reset besides."""

    reset: bool = False


@dataclass(frozen=True, slots=True)
class Reset:
    """Changes of this scope were not sent: read the source."""


@dataclass(frozen=True, slots=True)
class Check:
    """The source's current revision, without anything that would reach it."""

    revision: int


@dataclass(frozen=True, slots=True)
class Change:
    """The interval (base, revision] as the scope sees it; without operations it is coverage. `size`: bytes as
    received.
    """

    base: int
    revision: int
    operations: tuple[FrameOperation, ...]
    size: int


Frame = Foreign | Terminal | Malformed | OtherEpoch | Reset | Check | Change


def read_frame(payload: dict[str, Any], size: int, scope_id: str, session_id: str, epoch: str) -> Frame:
    """What the payload says to this scope. `epoch`: the one it subscribed under; empty while it has none, and then
    none is another one.
    """
    if payload.get("scope_id") != scope_id or payload.get("session_id") != session_id:
        return Foreign()
    if payload.get("terminal") is True:
        return Terminal()
    try:
        changed = Changed.model_validate(payload)
    except ValidationError:
        return Malformed()
    if epoch and changed.epoch != epoch:
        return OtherEpoch(reset=changed.reset is True)
    if changed.reset:
        return Reset()
    return _interval(changed, size)


def _interval(changed: Changed, size: int) -> Check | Change | Malformed:
    if changed.base_revision == "" or changed.revision == "":
        return Malformed()
    base, revision = int(changed.base_revision), int(changed.revision)
    if changed.check:
        return Check(revision) if base == revision and not changed.operations else Malformed()
    if base >= revision or len(changed.operations) > MAX_OPERATIONS:
        return Malformed()
    if not all(_whole(operation, changed.session_id) for operation in changed.operations):
        return Malformed()
    return Change(base, revision, changed.operations, size)


def _whole(operation: FrameOperation, session_id: str) -> bool:
    """Whether an upsert carries the row it names, at a time that exists, and a removal none."""
    if not operation.id:
        return False
    if operation.kind == "remove":
        return operation.message is None and operation.turn is None
    expected, other = (
        (operation.message, operation.turn) if operation.entity == "message" else (operation.turn, operation.message)
    )
    if expected is None or other is not None or (expected.id, expected.session_id) != (operation.id, session_id):
        return False
    try:
        row_of(expected)
    except ValueError:
        return False
    return True
