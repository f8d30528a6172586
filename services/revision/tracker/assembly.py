"""Decoded messages become committed transactions with one draft per session they touched (T1)."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple

from services.revision.tracker.drafts import Image, Selected, Transaction
from services.revision.tracker.pgoutput import (
    UNCHANGED,
    Begin,
    Commit,
    DecodingError,
    Delete,
    Insert,
    Message,
    Relation,
    Truncate,
    Update,
    Values,
)
from services.revision.tracker.transaction import TRANSACTION_BUDGET, Key, OpenTransaction
from shared.contracts.rows import Entity, author_of


class _Role(Enum):
    ROWS = auto()
    REVISIONS = auto()
    EPOCH = auto()
    OTHER = auto()


_ROLES: Final = {
    ("public", "task_session_messages"): _Role.ROWS,
    ("public", "task_session_turns"): _Role.ROWS,
    ("public", "conversation_session_revisions"): _Role.REVISIONS,
    ("conversation", "epoch"): _Role.EPOCH,
}


@dataclass(frozen=True, slots=True)
class _Table:
    """A relation with the places of the columns that matter; -1: it has no such column.

    `keys`: the places of the replica identity. `identified`: it says where an updated row was before; without an old
    row, an update has then left those columns alone. The task may be missing there, where it may be NULL: a trigger
    tells by the revision when it changes, and `task_told` says whether an old row has it.
    """

    name: str
    role: _Role
    entity: Entity
    names: tuple[str, ...]
    id: int
    session: int
    task: int
    author: int
    value: int
    keys: frozenset[int]
    identified: bool
    task_told: bool


class _Located(NamedTuple):
    key: Key
    selected: Selected


class Assembler:
    """Feeds on the messages of one connection, in order. `epoch`: the one that holds where the stream begins (R2)."""

    def __init__(self, epoch: str, budget: int = TRANSACTION_BUDGET) -> None:
        self._epoch = epoch
        self._budget = budget
        self._tables: dict[int, _Table] = {}
        self._open: OpenTransaction | None = None

    @property
    def epoch(self) -> str:
        """The epoch behind the last committed transaction."""
        return self._epoch

    def feed(self, message: Message) -> Transaction | None:
        """Takes one message; a commit gives its transaction. Raises DecodingError where the order or a column makes no
        sense.
        """
        if isinstance(message, Relation):
            self._tables[message.oid] = _table(message)
            return None
        if isinstance(message, Begin):
            if self._open is not None:
                raise DecodingError("a transaction begins inside another")
            self._open = OpenTransaction(message, self._budget)
            return None
        if self._open is None:
            raise DecodingError(f"{type(message).__name__} outside of a transaction")
        if isinstance(message, Commit):
            committed, self._open = self._open.commit(message, self._epoch), None
            self._epoch = committed.epoch
            return committed
        self._change(self._open, message)
        return None

    def _change(self, transaction: OpenTransaction, message: Insert | Update | Delete | Truncate) -> None:
        if isinstance(message, Truncate):
            for relation in message.relations:
                _truncated(transaction, self._tables[relation.oid].role)
            return
        table = self._tables[message.relation.oid]
        if table.role is _Role.ROWS:
            _row(transaction, table, message)
        elif table.role is _Role.REVISIONS:
            _revision(transaction, table, message)
        elif table.role is _Role.EPOCH and not isinstance(message, Delete):
            transaction.epoch_written(_text(table, message.new, table.value))


def _row(transaction: OpenTransaction, table: _Table, change: Insert | Update | Delete) -> None:
    if isinstance(change, Insert):
        _arrived(transaction, table, change.new)
        return
    new = None if isinstance(change, Delete) else _restored(table, change)
    now = None if new is None else _located(table, new)
    before = None
    if table.identified:
        before = now if change.old is None else _located(table, change.old)
    if before is None or (new is not None and now is None):
        transaction.row_unknown()
    elif now is None or new is None:
        transaction.row_written(before.key, before.selected, None, None)
    elif before.key == now.key:
        transaction.row_written(now.key, before.selected, now.selected, Image(table.names, new))
    else:
        transaction.row_written(before.key, before.selected, None, None)
        transaction.row_written(now.key, None, now.selected, Image(table.names, new))
    if before is not None and change.old is not None and not table.task_told:
        transaction.selection_unknown(before.selected.session_id)


def _arrived(transaction: OpenTransaction, table: _Table, new: Values) -> None:
    now = _located(table, new)
    if now is None:
        transaction.row_unknown()
    else:
        transaction.row_written(now.key, None, now.selected, Image(table.names, new))


def _revision(transaction: OpenTransaction, table: _Table, change: Insert | Update | Delete) -> None:
    if isinstance(change, Insert):
        transaction.revision_inserted(_text(table, change.new, table.id), _number(table, change.new))
        return
    if change.old is None:
        raise DecodingError(
            "an update of conversation_session_revisions came without its old row: it needs REPLICA IDENTITY FULL"
        )
    session_id, old = _text(table, change.old, table.id), _number(table, change.old)
    if isinstance(change, Delete):
        transaction.revision_deleted(session_id, old)
        return
    values = _restored(table, change)
    new_id, new = _text(table, values, table.id), _number(table, values)
    if new_id == session_id:
        transaction.revision_updated(session_id, old, new)
    else:
        transaction.revision_deleted(session_id, old)
        transaction.revision_inserted(new_id, new)


def _truncated(transaction: OpenTransaction, role: _Role) -> None:
    if role is _Role.ROWS:
        transaction.rows_truncated()
    elif role is _Role.REVISIONS:
        transaction.revisions_truncated()


def _table(relation: Relation) -> _Table:
    names = tuple(column.name for column in relation.columns)

    def place(name: str) -> int:
        return names.index(name) if name in names else -1

    role = _ROLES.get((relation.schema, relation.name), _Role.OTHER)
    of_turns = relation.name == "task_session_turns"
    keys = frozenset(index for index, column in enumerate(relation.columns) if column.key)
    author = -1 if of_turns else place("author_type")
    selection = {place("id"), place("task_session_id"), author} - {-1}
    return _Table(
        name=relation.name,
        role=role,
        entity="turn" if of_turns else "message",
        names=names,
        id=place("session_id" if role is _Role.REVISIONS else "id"),
        session=place("task_session_id"),
        task=place("task_id"),
        author=author,
        value=place("epoch" if role is _Role.EPOCH else "revision"),
        keys=keys,
        identified=selection <= keys,
        task_told=place("task_id") in keys,
    )


def _restored(table: _Table, change: Insert | Update) -> Values:
    """The new row. A large value of the replica identity that did not change stands in the old row only."""
    if isinstance(change, Insert) or change.old is None or UNCHANGED not in change.new:
        return change.new
    pairs = enumerate(zip(change.old, change.new, strict=True))
    return tuple(old if new is UNCHANGED and place in table.keys else new for place, (old, new) in pairs)


def _located(table: _Table, values: Values) -> _Located | None:
    """Which row this is, and where scopes look for it; `None` where the log does not say."""
    row_id, session, task = (values[place] if place >= 0 else None for place in (table.id, table.session, table.task))
    author = values[table.author] if table.author >= 0 else b""
    if (
        not (isinstance(row_id, bytes) and isinstance(session, bytes) and isinstance(author, bytes))
        or task is UNCHANGED
    ):
        return None
    selected = Selected(
        session.decode(),
        None if task is None else task.decode(),
        None if table.author < 0 else author_of(author.decode()),
    )
    return _Located((table.entity, row_id.decode()), selected)


def _number(table: _Table, values: Values) -> int:
    return int(_text(table, values, table.value))


def _text(table: _Table, values: Values, place: int) -> str:
    value = values[place] if place >= 0 else None
    if not isinstance(value, bytes):
        raise DecodingError(
            f"a row of {table.name} lacks a column that the tracker needs (column {place} of {len(values)}): "
            "check the table's replica identity"
        )
    return value.decode()
