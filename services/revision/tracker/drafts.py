"""What a committed transaction says, before its rows are encoded: drafts of receipts."""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from services.revision.tracker.pgoutput import UNCHANGED, Values
from shared.contracts.rows import AuthorType, Entity


class Selected(NamedTuple):
    """The columns by which scopes choose rows; `author_type` is `None` for turns."""

    session_id: str
    task_id: str | None
    author_type: AuthorType | None


class Image(NamedTuple):
    """A row's last state in its transaction, as the log carries it."""

    names: tuple[str, ...]
    values: Values

    @property
    def missing(self) -> tuple[str, ...]:
        """Columns whose large value the log left out (T3)."""
        return tuple(name for name, value in zip(self.names, self.values, strict=True) if value is UNCHANGED)


class DraftOperation(NamedTuple):
    """An upsert, or a removal where there is no image. `previous` held before the transaction; `None`: not there
    before.
    """

    entity: Entity
    id: str
    image: Image | None
    previous: Selected | None

    @property
    def needs_filling(self) -> bool:
        """Whether a large value has to be read before this can be published whole (T3)."""
        return self.image is not None and UNCHANGED in self.image.values


class SessionChange(NamedTuple):
    """One session's interval (base, revision]. `operations` is `None` if incomplete: not every change is named."""

    session_id: str
    base: int
    revision: int
    operations: tuple[DraftOperation, ...] | None


class SessionRemoved(NamedTuple):
    """The session was deleted; `revision` is its last one + 1 (R1), `base` what it was before the transaction."""

    session_id: str
    base: int
    revision: int


Draft: TypeAlias = SessionChange | SessionRemoved


@dataclass(frozen=True, slots=True)
class HistoryBroken:
    """The log shows changes that no revision covers (T4): every revision handed out so far may lie. A new epoch is due.

    `sessions`: how many had rows logged without a revision change; `rows`: how many rows, those of sessions that the
    log does not name included; `backwards`: revisions
    that went down.
    """

    sessions: int = 0
    rows: int = 0
    backwards: int = 0
    truncations: int = 0

    def __str__(self) -> str:
        return (
            f"{self.rows} rows of {self.sessions} sessions without a revision change, "
            f"{self.backwards} revisions that went back, "
            f"{self.truncations} truncations that advanced nothing"
        )


@dataclass(frozen=True, slots=True)
class Transaction:
    """A committed transaction. `committed_at`: microseconds since 2000-01-01 UTC. `size`: bytes of rows it holds,
    estimated.

    `doubtful`: the log does not explain every change, whose sessions are incomplete; `prerequisites.breach` may know
    why.

    `minted`: `epoch` is a new one, made by this transaction. Its receipts carry it already: no snapshot shows their
    revisions under the old one.
    """

    xid: int
    end_lsn: int
    committed_at: int
    epoch: str
    minted: bool
    drafts: tuple[Draft, ...]
    broken: HistoryBroken | None
    size: int
    doubtful: bool = False
