"""An open transaction: what it has done so far to sessions and rows, folded as it comes.

Memory is bounded whatever the transaction's size: a session past the limits of a receipt, and every further one
once the whole transaction is past its budget, keeps its interval and gives up its rows.
"""

from dataclasses import dataclass, field
from typing import Final

from services.revision.tracker.drafts import (
    Draft,
    DraftOperation,
    HistoryBroken,
    Image,
    Selected,
    SessionChange,
    SessionRemoved,
    Transaction,
)
from services.revision.tracker.pgoutput import UNCHANGED, Begin, Commit, Value
from shared.contracts.receipts import MAX_OPERATIONS, MAX_RECEIPT_BYTES
from shared.contracts.rows import Entity

TRANSACTION_BUDGET: Final = 64 << 20
"""Most bytes of rows kept for one transaction (64 MiB): 64 of the largest receipts. PostgreSQL spills to disk at the
same size.
"""

ROW_OVERHEAD: Final = 512
"""Bytes that a row takes besides its values, so that very many small rows count too."""

Key = tuple[Entity, str]


@dataclass(slots=True)
class _Interval:
    base: int
    revision: int


@dataclass(slots=True)
class _Row:
    """`previous`: the selection before the transaction. `session_id`: where the row is now, `None` if it is gone."""

    previous: Selected | None
    session_id: str | None = None
    image: Image | None = None
    size: int = 0

    @property
    def origin(self) -> str | None:
        return None if self.previous is None else self.previous.session_id


@dataclass(slots=True)
class _Session:
    """`logged`: rows that need a revision change to cover them. `advances`: updates of the revision row, each owed to
    a statement that wrote a row. `rows`: those with something to say here, in the order of the log.
    """

    incomplete: bool
    interval: _Interval | None = None
    removals: list[SessionRemoved] = field(default_factory=list)
    logged: int = 0
    advances: int = 0
    rows: dict[Key, None] = field(default_factory=dict)
    size: int = 0

    @property
    def advanced(self) -> bool:
        return self.interval is not None and self.interval.revision > self.interval.base

    @property
    def unexplained(self) -> bool:
        """Whether fewer rows were logged than statements advanced the revision: some row did not reach the log.

        A statement that wrote several logged rows can hide one that the log lacks; that the log shows everything is
        what `prerequisites.breach` looks at.
        """
        return self.logged < self.advances


class OpenTransaction:
    """Folds one transaction; `commit` says what became of it."""

    def __init__(self, begin: Begin, budget: int = TRANSACTION_BUDGET) -> None:
        self._begin = begin
        self._budget = budget
        self._sessions: dict[str, _Session] = {}
        self._rows: dict[Key, _Row] = {}
        self._size = 0
        self._epoch: str | None = None
        self._truncations = 0
        self._unknown = 0
        self._backwards = 0
        self._revisions_emptied = False

    @property
    def size(self) -> int:
        """Bytes of rows kept, estimated."""
        return self._size

    def revision_inserted(self, session_id: str, revision: int) -> None:
        """A revision row was made, at the value its session's history begins with."""
        self._session(session_id).interval = _Interval(revision, revision)

    def revision_updated(self, session_id: str, old: int, new: int) -> None:
        """A session advanced. The interval spans the first old value and the last new one.

        A statement advances by one, and from 0 to the floor; any other step says that the log does not name all.
        """
        session = self._session(session_id)
        if 0 < old < new - 1:
            self._give_up(session)
        session.advances += 1
        if new < old:
            self._backwards += 1
        if session.interval is None:
            session.interval = _Interval(old, new)
        else:
            session.interval.revision = new

    def revision_deleted(self, session_id: str, old: int) -> None:
        """A session ended. What happened to its rows before is told by its removal; it may begin again (R1)."""
        session = self._session(session_id)
        base = old if session.interval is None else session.interval.base
        session.removals.append(SessionRemoved(session_id, base, old + 1))
        session.interval = None
        session.logged = session.advances = 0
        session.incomplete = self._unnamed
        for key in tuple(session.rows):
            row = self._rows[key]
            if row.origin == session_id:
                row.previous = None
            self._settle(key, row, session_id)

    def revisions_truncated(self) -> None:
        """Every revision is gone: this transaction mints an epoch, or history is broken."""
        self._revisions_emptied = True
        self._sessions.clear()
        self._rows.clear()
        self._size = 0

    def rows_truncated(self) -> None:
        """All messages or all turns are gone, none of them named: this transaction's sessions become incomplete."""
        self._truncations += 1
        self._name_nothing()

    def row_unknown(self) -> None:
        """A row changed, and the log does not say which one or where it was: any of this transaction's sessions may
        be concerned, and all become incomplete.
        """
        self._unknown += 1
        self._name_nothing()

    def selection_unknown(self, session_id: str) -> None:
        """A row was in this session, and the log does not say for which of its scopes: the session becomes
        incomplete.
        """
        self._give_up(self._session(session_id))

    def epoch_written(self, epoch: str) -> None:
        """The epoch's row was written: a heartbeat, or a mint."""
        self._epoch = epoch

    def row_written(self, key: Key, old: Selected | None, new: Selected | None, image: Image | None) -> None:
        """A row was inserted (`old` absent), updated, or deleted (`new` and `image` absent)."""
        sessions = {
            selected.session_id: self._session(selected.session_id) for selected in (old, new) if selected is not None
        }
        for session in sessions.values():
            # A cascade may reach the revision row before the last rows of its session.
            if not (new is None and session.removals and session.interval is None):
                session.logged += 1
        row = self._rows.get(key)
        if row is None:
            if all(session.incomplete for session in sessions.values()):
                return
            row = self._rows[key] = _Row(old)
        self._resize(row, image)
        row.session_id = None if new is None else new.session_id
        if new is not None:
            sessions[new.session_id].size += row.size
        for session_id in sessions:
            self._settle(key, row, session_id)
        for session in sessions.values():
            if not session.incomplete and self._too_much(session):
                self._give_up(session)

    def commit(self, message: Commit, epoch: str) -> Transaction:
        """The committed transaction; `epoch` is the one that held before it."""
        minted = self._epoch is not None and self._epoch != epoch
        drafts: list[Draft] = []
        for session_id, session in self._sessions.items():
            drafts.extend(session.removals)
            if session.interval is not None and session.advanced:
                drafts.append(
                    SessionChange(
                        session_id,
                        session.interval.base,
                        session.interval.revision,
                        None if session.incomplete or session.unexplained else self._operations(session_id, session),
                    )
                )
        return Transaction(
            xid=self._begin.xid,
            end_lsn=message.end_lsn,
            committed_at=message.committed_at,
            epoch=epoch if self._epoch is None else self._epoch,
            minted=minted,
            drafts=tuple(drafts),
            broken=None if minted else self._broken(),
            doubtful=self._doubtful,
            size=self._size + ROW_OVERHEAD * (1 + len(drafts)),
        )

    def _session(self, session_id: str) -> _Session:
        session = self._sessions.get(session_id)
        if session is None:
            session = self._sessions[session_id] = _Session(incomplete=self._unnamed)
        return session

    @property
    def _unnamed(self) -> bool:
        return self._truncations > 0 or self._unknown > 0

    @property
    def _doubtful(self) -> bool:
        # A truncation advances its sessions and names no row.
        unexplained = not self._truncations and any(
            session.advanced and session.unexplained for session in self._sessions.values()
        )
        return self._unknown > 0 or unexplained

    def _name_nothing(self) -> None:
        self._rows.clear()
        self._size = 0
        for session in self._sessions.values():
            session.incomplete = True
            session.rows.clear()
            session.size = 0

    def _resize(self, row: _Row, image: Image | None) -> None:
        """Gives the row its new image, large values that did not change taken from the one before."""
        if image is not None and row.image is not None and UNCHANGED in image.values:
            image = _completed(image, row.image)
        size = ROW_OVERHEAD + (
            0 if image is None else sum(len(value) for value in image.values if isinstance(value, bytes))
        )
        self._size += size - row.size
        if row.session_id is not None:
            self._sessions[row.session_id].size -= row.size
        row.image, row.size = image, size

    def _settle(self, key: Key, row: _Row, session_id: str) -> None:
        """Files the row under this session if it has something to say there, and forgets it if it has nowhere."""
        session = self._sessions[session_id]
        if not session.incomplete and session_id in (row.session_id, row.origin):
            session.rows[key] = None
        else:
            session.rows.pop(key, None)
        if row.session_id is None and row.previous is None and self._rows.pop(key, None) is not None:
            self._size -= row.size

    def _too_much(self, session: _Session) -> bool:
        most = MAX_RECEIPT_BYTES + ROW_OVERHEAD * len(session.rows)
        return len(session.rows) > MAX_OPERATIONS or session.size > most or self._size > self._budget

    def _give_up(self, session: _Session) -> None:
        session.incomplete = True
        for key in session.rows:
            row = self._rows[key]
            concerned = {
                self._sessions[session_id].incomplete
                for session_id in (row.session_id, row.origin)
                if session_id is not None
            }
            if all(concerned):
                del self._rows[key]
                self._size -= row.size
        session.rows.clear()

    def _operations(self, session_id: str, session: _Session) -> tuple[DraftOperation, ...]:
        operations = []
        for key in session.rows:
            row = self._rows[key]
            image = row.image if row.session_id == session_id else None
            operations.append(DraftOperation(*key, image, row.previous))
        return tuple(operations)

    def _broken(self) -> HistoryBroken | None:
        uncovered = [session.logged for session in self._sessions.values() if session.logged and not session.advanced]
        # An empty table's trigger has no revision to advance, and writes the epoch as it is instead.
        looked_at = self._epoch is not None or any(session.advanced for session in self._sessions.values())
        silent = 0 if looked_at else self._truncations
        covered = any(session.advanced or session.removals for session in self._sessions.values())
        rows = sum(uncovered) + (0 if covered else self._unknown)
        broken = HistoryBroken(len(uncovered), rows, self._backwards, silent + self._revisions_emptied)
        return None if broken == HistoryBroken() else broken


def _completed(image: Image, before: Image) -> Image:
    known: dict[str, Value] = dict(zip(before.names, before.values, strict=True))
    values = tuple(
        known.get(name, value) if value is UNCHANGED else value
        for name, value in zip(image.names, image.values, strict=True)
    )
    return Image(image.names, values)
