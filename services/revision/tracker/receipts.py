"""Drafts become the JSON of receipts, once, in the form that `shared.contracts.receipts` describes."""

from datetime import UTC, datetime, timedelta
from typing import Final

import orjson

from services.revision.metrics import INCOMPLETE
from services.revision.tracker.drafts import Draft, DraftOperation, Selected, SessionChange, Transaction
from services.revision.tracker.rows import Document, RowError, document
from shared.broker.receipts import Outgoing
from shared.contracts.receipts import MAX_RECEIPT_BYTES
from shared.times import format_time

_POSTGRES_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)


def encode(transaction: Transaction) -> list[Outgoing]:
    """The receipts of one transaction in its own order; none joins another transaction's (T1).

    A receipt over `MAX_RECEIPT_BYTES`, and one with a row that the contracts cannot express, is incomplete.
    """
    committed_at = format_time(_POSTGRES_EPOCH + timedelta(microseconds=transaction.committed_at))
    return [_encoded(draft, transaction.epoch, committed_at) for draft in transaction.drafts]


def encode_epoch(epoch: str) -> bytes:
    """The JSON of an epoch receipt."""
    return orjson.dumps({"kind": "epoch", "epoch": epoch})


def _encoded(draft: Draft, epoch: str, committed_at: str) -> Outgoing:
    common: Document = {
        "session_id": draft.session_id,
        "epoch": epoch,
        "base_revision": draft.base,
        "revision": draft.revision,
        "committed_at": committed_at,
    }
    if not isinstance(draft, SessionChange):
        return Outgoing(draft.session_id, "removed", orjson.dumps({"kind": "removed", **common}))
    payload = _complete(draft, common)
    if payload is None or len(payload) > MAX_RECEIPT_BYTES:
        INCOMPLETE.inc()
        payload = orjson.dumps({"kind": "change", **common, "complete": False, "operations": ()})
    return Outgoing(draft.session_id, "change", payload)


def _complete(draft: SessionChange, common: Document) -> bytes | None:
    if draft.operations is None:
        return None
    try:
        operations = [_operation(operation) for operation in draft.operations]
        return orjson.dumps({"kind": "change", **common, "complete": True, "operations": operations})
    except (RowError, orjson.JSONEncodeError):
        return None


def _operation(operation: DraftOperation) -> Document:
    encoded: Document = {
        "kind": "remove" if operation.image is None else "upsert",
        "entity": operation.entity,
        "id": operation.id,
        "message": None,
        "turn": None,
        "previous": None if operation.previous is None else _selection(operation.previous),
    }
    if operation.image is not None:
        columns = dict(zip(operation.image.names, operation.image.values, strict=True))
        encoded[operation.entity] = document(operation.entity, columns)
    return encoded


def _selection(selected: Selected) -> Document:
    return {
        "session_id": selected.session_id,
        "task_id": selected.task_id,
        "author_type": selected.author_type,
    }
