"""Receipts: what one commit did to one session. Published once, stored nowhere (`docs/protocol.md`, R and T)."""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from shared.contracts.base import DISCREET, Contract, Timestamp
from shared.contracts.rows import AuthorType, Entity, MessageRow, TurnRow


class Selection(Contract):
    """The columns by which scopes choose rows. `author_type` is absent for turns."""

    session_id: str
    task_id: str | None
    author_type: AuthorType | None = None


class Operation(Contract):
    """What an interval did to one row, with the row's state at the receipt's revision.

    An `upsert` carries the whole row in `message` or `turn`; a `remove` carries neither (the row was deleted, or left
    the session).
    `previous` is the selection that held before the interval: absent when the row was not there before.
    """

    kind: Literal["upsert", "remove"]
    entity: Entity
    id: str
    message: MessageRow | None = None
    turn: TurnRow | None = None
    previous: Selection | None = None


class ChangeReceipt(Contract):
    """One session's interval (base_revision, revision] in one transaction.

    `complete`: `operations` names every row changed in the interval. Otherwise `operations` is empty and consumers
    reset.
    """

    kind: Literal["change"] = "change"
    session_id: str
    epoch: str
    base_revision: int
    revision: int
    complete: bool
    operations: tuple[Operation, ...] = ()
    committed_at: Timestamp


class RemovedReceipt(Contract):
    """The session was deleted. `revision` is the last one + 1, the least that a session made again under this id may
    start at (R1).
    """

    kind: Literal["removed"] = "removed"
    session_id: str
    epoch: str
    base_revision: int
    revision: int
    committed_at: Timestamp


class ResyncReceipt(Contract):
    """Opens a tracker's term in every partition (T2): receipts may have been lost before it; check the revisions you
    hold.
    """

    kind: Literal["resync"] = "resync"
    epoch: str


class EpochReceipt(Contract):
    """A new epoch was minted at this place of the log (R2). Gateways ask the primary before they adopt it (R4)."""

    kind: Literal["epoch"] = "epoch"
    epoch: str


Receipt = Annotated[ChangeReceipt | RemovedReceipt | ResyncReceipt | EpochReceipt, Field(discriminator="kind")]
RECEIPT: TypeAdapter[Receipt] = TypeAdapter(Receipt, config=DISCREET)
"""Parses a receipt's JSON."""

MAX_OPERATIONS = 256
"""Most operations of one session in a receipt; more make it incomplete. Clients buffer no more than this either."""

MAX_RECEIPT_BYTES = 1 << 20
"""Most bytes of one encoded receipt (1 MiB); larger makes it incomplete: a page is the cheaper way to fetch that much.
"""
