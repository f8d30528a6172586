"""Rows and receipts for tests of the gateway's pure parts."""

from shared.contracts.receipts import ChangeReceipt, Operation, RemovedReceipt, Selection
from shared.contracts.rows import AuthorType, Entity, MessageRow, TurnRow

NOON = "2026-01-01T12:00:00Z"


def message(
    row_id: str,
    session_id: str = "s",
    task_id: str | None = "t",
    author: AuthorType = "user",
    content: str = "",
) -> MessageRow:
    """A message; user messages carry ordinal 1."""
    return MessageRow(
        id=row_id,
        session_id=session_id,
        task_id=task_id,
        turn_id=None,
        author_type=author,
        author_id="",
        content=content,
        requests_input=False,
        type="message",
        metadata=None,
        created_at=NOON,
        updated_at=NOON,
        prompt_seq=1 if author == "user" else 0,
    )


def turn(row_id: str, session_id: str = "s", task_id: str | None = "t") -> TurnRow:
    """A turn that runs."""
    return TurnRow(
        id=row_id,
        session_id=session_id,
        task_id=task_id,
        started_at=NOON,
        completed_at=None,
        execution_profile_id=None,
        route_generation=None,
        metadata=None,
        created_at=NOON,
        updated_at=NOON,
    )


def selection(row: MessageRow | TurnRow) -> Selection:
    """What scopes choose a row by."""
    author = row.author_type if isinstance(row, MessageRow) else None
    return Selection(session_id=row.session_id, task_id=row.task_id, author_type=author)


def upsert(row: MessageRow | TurnRow, previous: MessageRow | TurnRow | None = None) -> Operation:
    """A row that was written; `previous` as it stood before."""
    before = None if previous is None else selection(previous)
    if isinstance(row, MessageRow):
        return Operation(kind="upsert", entity="message", id=row.id, message=row, previous=before)
    return Operation(kind="upsert", entity="turn", id=row.id, turn=row, previous=before)


def remove(previous: MessageRow | TurnRow) -> Operation:
    """A row that was deleted or left."""
    entity: Entity = "message" if isinstance(previous, MessageRow) else "turn"
    return Operation(kind="remove", entity=entity, id=previous.id, previous=selection(previous))


def change(
    base: int, *operations: Operation, to: int | None = None, epoch: str = "e", complete: bool = True
) -> ChangeReceipt:
    """A receipt of session `s`; one revision long unless `to` says otherwise."""
    return ChangeReceipt(
        session_id="s",
        epoch=epoch,
        base_revision=base,
        revision=base + 1 if to is None else to,
        complete=complete,
        operations=operations,
        committed_at=NOON,
    )


def removed(base: int, epoch: str = "e") -> RemovedReceipt:
    """The deletion of session `s`."""
    return RemovedReceipt(session_id="s", epoch=epoch, base_revision=base, revision=base + 1, committed_at=NOON)
