"""Large values that an update left out of the log are read back, if the row is still the transaction's own (T3)."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, Protocol

from services.revision.tracker.drafts import Draft, DraftOperation, Image, SessionChange, Transaction
from services.revision.tracker.pgoutput import UNCHANGED, Value
from shared.contracts.receipts import MAX_RECEIPT_BYTES
from shared.contracts.rows import Entity

PATIENCE_SECONDS: Final = 0.2
"""How long a commit may take to become visible after it stands in the log (measured: up to 2.4 ms; more under a
synchronous standby). Receipts of every session wait meanwhile."""

MOST_FILLED: Final = 64
"""Rows read back for one transaction, at most: of the largest that a receipt takes, they are a transaction's budget."""

PAUSES: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.04, 0.06, 0.062)
"""Pauses between looks, in seconds; their sum is PATIENCE_SECONDS."""

_READ_MESSAGES: Final = """
SELECT id, xmin::text::bigint AS xmin, pg_current_snapshot()::text AS snapshot,
       author_id, type, turn_id,
       CASE WHEN octet_length(content) <= $2 THEN content END AS content,
       CASE WHEN octet_length(metadata) <= $2 THEN metadata END AS metadata
FROM public.task_session_messages WHERE id = ANY($1::text[])
"""
"""By primary key."""

_READ_TURNS: Final = """
SELECT id, xmin::text::bigint AS xmin, pg_current_snapshot()::text AS snapshot, execution_profile_id,
       CASE WHEN octet_length(metadata) <= $2 THEN metadata END AS metadata
FROM public.task_session_turns WHERE id = ANY($1::text[])
"""
"""By primary key."""

Row = Mapping[str, object]
Key = tuple[Entity, str]


class Rows(Protocol):
    """Where rows are read: an asyncpg pool or connection."""

    async def fetch(self, query: str, *arguments: object) -> list[Row]:
        """Rows of the query's result."""


def visible(xid: int, snapshot: str) -> bool:
    """Whether a committed transaction of this 32-bit id is visible to a snapshot in PostgreSQL's text form,
    `xmin:xmax:running`.

    The id is taken to be the one nearest to the snapshot, as PostgreSQL itself compares ids that wrap around.
    """
    _, xmax, running = snapshot.split(":")
    distance = ((xid - int(xmax) + (1 << 31)) % (1 << 32)) - (1 << 31)
    widened = int(xmax) + distance
    return distance < 0 and str(widened) not in running.split(",")


class Filler:
    """Completes transactions before they are published."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    async def fill(self, transaction: Transaction) -> Transaction:
        """The transaction with its left-out values read back; a session for which that cannot be done becomes
        incomplete.

        A row last written under a savepoint carries the savepoint's id, not the transaction's: it cannot be told
        from another's. Raises what the database raises.
        """
        wanted = _wanted(transaction)
        if not wanted or len(wanted) > MOST_FILLED:
            return replace(transaction, drafts=filled(transaction.drafts, {})) if wanted else transaction
        found: dict[Key, Row] = {}
        for pause in (*PAUSES, None):
            found = await self._read(wanted)
            stale = any(row["xmin"] != transaction.xid and not _sees(row, transaction.xid) for row in found.values())
            if pause is None or not stale:
                break
            await asyncio.sleep(pause)
        own = {key: row for key, row in found.items() if row["xmin"] == transaction.xid}
        return replace(transaction, drafts=filled(transaction.drafts, own))

    async def _read(self, wanted: Iterable[Key]) -> dict[Key, Row]:
        found: dict[Key, Row] = {}
        by_entity: dict[Entity, list[str]] = {}
        for entity, row_id in wanted:
            by_entity.setdefault(entity, []).append(row_id)
        for entity, ids in by_entity.items():
            query = _READ_MESSAGES if entity == "message" else _READ_TURNS
            for row in await self._rows.fetch(query, ids, MAX_RECEIPT_BYTES):
                found[entity, str(row["id"])] = row
        return found


def filled(drafts: Iterable[Draft], own: Mapping[Key, Row]) -> tuple[Draft, ...]:
    """The drafts with values taken from rows that the transaction itself wrote; incomplete where one is missing."""
    return tuple(_filled(draft, own) if isinstance(draft, SessionChange) else draft for draft in drafts)


def _filled(draft: SessionChange, own: Mapping[Key, Row]) -> SessionChange:
    if draft.operations is None or not any(operation.needs_filling for operation in draft.operations):
        return draft
    operations: list[DraftOperation] = []
    for operation in draft.operations:
        if operation.image is not None and operation.needs_filling:
            image = _completed(operation.image, own.get((operation.entity, operation.id), {}))
            if image.missing:
                return draft._replace(operations=None)
            operations.append(operation._replace(image=image))
        else:
            operations.append(operation)
    return draft._replace(operations=tuple(operations))


def _completed(image: Image, row: Row) -> Image:
    def value(name: str, logged: Value) -> Value:
        read = row.get(name) if logged is UNCHANGED else None
        return read.encode() if isinstance(read, str) else logged

    return Image(image.names, tuple(value(*pair) for pair in zip(image.names, image.values, strict=True)))


def _wanted(transaction: Transaction) -> list[Key]:
    return [
        (operation.entity, operation.id)
        for draft in transaction.drafts
        if isinstance(draft, SessionChange)
        for operation in draft.operations or ()
        if operation.needs_filling
    ]


def _sees(row: Row, xid: int) -> bool:
    return visible(xid, str(row["snapshot"]))
