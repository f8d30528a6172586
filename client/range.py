"""The loaded range of a scope's rows: which part of the source it shows, at which revision, and how an operation
changes it.

Everything here is a value. A part is an interval of the order (time, id) together with every row of the scope's
filter that the source held in that interval at the part's revision.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from shared.contracts.rows import AuthorType, Entity
from shared.contracts.wire import CoreMessage, CoreTurn, FrameOperation
from shared.times import microseconds

Key = tuple[int, str]
"""A place in the order of rows: microseconds since 1970, then the id, compared character by character and never by a
locale.
"""

Body = CoreMessage | CoreTurn


@dataclass(frozen=True, slots=True)
class Row:
    """One row and its place in the order: by `created_at` for a message, by `started_at` for a turn."""

    entity: Entity
    key: Key
    body: Body

    @property
    def id(self) -> str:
        """The row's id."""
        return self.body.id


def row_of(body: Body) -> Row:
    """The row of a body. Raises ValueError when its time names no moment."""
    match body:
        case CoreMessage():
            return Row("message", (microseconds(body.created_at), body.id), body)
        case CoreTurn():
            return Row("turn", (microseconds(body.started_at), body.id), body)
        case _:
            assert_never(body)


def behind(key: Key) -> Key:
    """The first place after `key`. Ids hold no control characters, so no id stands between the two."""
    return key[0], key[1] + "\0"


@dataclass(frozen=True, slots=True)
class Filter:
    """Which rows a scope is about. `task_id` None: those of every task. `authors` empty: messages by anyone. Turns
    have no author.
    """

    task_id: str | None = None
    authors: tuple[AuthorType, ...] = ()

    def admits(self, body: Body) -> bool:
        """Whether the row belongs to the scope."""
        if self.task_id is not None and body.task_id != self.task_id:
            return False
        return isinstance(body, CoreTurn) or not self.authors or body.author_type in self.authors


@dataclass(frozen=True, slots=True)
class Cursor:
    """The row next to which a page was asked for, and where it stood then."""

    id: str
    key: Key


@dataclass(frozen=True, slots=True)
class Part:
    """The rows in [low, high) of the order at `revision` (C3). An absent bound: no limit on that side.

    For messages `low` is the boundary of the loaded range, and `low is None` says that nothing older is left to load.
    `cursor`: the row next to which the part was read; absent for a first page and for a part that is committed.
    """

    entity: Entity
    revision: int
    low: Key | None = None
    high: Key | None = None
    rows: Mapping[str, Row] = field(default_factory=dict)
    cursor: Cursor | None = None

    def contains(self, key: Key) -> bool:
        """Whether a row at `key` would be in this part."""
        return (self.low is None or key >= self.low) and (self.high is None or key < self.high)

    def applying(self, operations: Iterable[FrameOperation], revision: int, scope_filter: Filter) -> "Part":
        """This part at `revision`, after operations that tell every row changed since (some of them may be known
        already).

        A row outside the part's bounds is left out, whatever was there before (C5: it comes with its own page).
        """
        rows: dict[str, Row] | None = None
        for operation in operations:
            if operation.entity != self.entity:
                continue
            if rows is None:
                rows = dict(self.rows)
            rows.pop(operation.id, None)
            body = operation.message or operation.turn
            if body is not None and scope_filter.admits(body):
                row = row_of(body)
                if self.contains(row.key):
                    rows[row.id] = row
        return replace(self, revision=revision, rows=self.rows if rows is None else rows)

    def above(self, low: Key | None) -> "Part":
        """This part without its rows below `low`; the whole of it where there are none, or no others (C5)."""
        if low is None or all(row.key >= low for row in self.rows.values()):
            return self
        kept = {name: row for name, row in self.rows.items() if row.key >= low}
        return replace(self, low=low, rows=kept) if kept else self

    def ordered(self) -> tuple[Row, ...]:
        """The rows, oldest first."""
        return tuple(sorted(self.rows.values(), key=lambda row: row.key))

    def oldest(self) -> Row | None:
        """The first row in order, if there is one."""
        return min(self.rows.values(), key=lambda row: row.key, default=None)


def message_part(
    rows: Iterable[CoreMessage], has_more: bool, revision: int, cursor: Cursor | None, scope_filter: Filter
) -> Part:
    """The part that a page of messages, newest first, proves: from its oldest row (or from the beginning) up to the
    cursor.
    """
    placed = [row_of(body) for body in rows]
    low = min((row.key for row in placed), default=None) if has_more else None
    high = None if cursor is None else cursor.key
    part = Part("message", revision, low, high, {}, cursor)
    return replace(part, rows=_admitted(part, placed, scope_filter))


def turn_part(
    rows: Iterable[CoreTurn], has_more: bool, revision: int, cursor: Cursor | None, scope_filter: Filter
) -> Part:
    """The part that a page of turns, oldest first, proves: from behind the cursor up to its last row (or without
    end).
    """
    placed = [row_of(body) for body in rows]
    low = None if cursor is None else behind(cursor.key)
    high = behind(max(row.key for row in placed)) if has_more and placed else None
    part = Part("turn", revision, low, high, {}, cursor)
    return replace(part, rows=_admitted(part, placed, scope_filter))


def _admitted(part: Part, rows: Iterable[Row], scope_filter: Filter) -> Mapping[str, Row]:
    return {row.id: row for row in rows if scope_filter.admits(row.body) and part.contains(row.key)}


def joined(parts: Iterable[Part]) -> Part:
    """One part of adjacent or overlapping ones, all at one revision. Raises ValueError for none, or for differing
    revisions.
    """
    known = tuple(parts)
    if len({(part.entity, part.revision) for part in known}) != 1:
        raise ValueError("parts can be joined at one revision only")
    lows, highs = [part.low for part in known], [part.high for part in known]
    return Part(
        known[0].entity,
        known[0].revision,
        None if None in lows else min(low for low in lows if low is not None),
        None if None in highs else max(high for high in highs if high is not None),
        {key: row for part in known for key, row in part.rows.items()},
    )


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a scope shows: messages and turns at one revision of one epoch."""

    epoch: str
    revision: int
    messages: Part
    turns: Part

    @property
    def has_more(self) -> bool:
        """Whether older messages exist that are not loaded."""
        return self.messages.low is not None

    def rows(self) -> tuple[Row, ...]:
        """Every message, then every turn, each oldest first."""
        return self.messages.ordered() + self.turns.ordered()

    def find(self, entity: Entity, row_id: str) -> Row | None:
        """The row of that name, if it is shown."""
        return (self.messages if entity == "message" else self.turns).rows.get(row_id)


@dataclass(frozen=True, slots=True)
class RowChange:
    """One row as it is shown from now on; `row` None: no longer shown."""

    entity: Entity
    id: str
    row: Row | None


def changes_between(old: Loaded | None, new: Loaded) -> tuple[RowChange, ...]:
    """What differs between two states of a scope: removed rows first, then new and changed ones, oldest first."""
    before = {} if old is None else {(row.entity, row.id): row for row in old.rows()}
    after = {(row.entity, row.id): row for row in new.rows()}
    gone = [RowChange(entity, row_id, None) for entity, row_id in before if (entity, row_id) not in after]
    shown = [RowChange(row.entity, row.id, row) for name, row in after.items() if before.get(name) != row]
    return (*gone, *shown)


def changes_by(operations: Iterable[FrameOperation], old: Loaded, new: Loaded) -> tuple[RowChange, ...]:
    """What a frame's operations changed of what is shown."""
    touched = dict.fromkeys((operation.entity, operation.id) for operation in operations)
    pairs = [(entity, row_id, old.find(entity, row_id), new.find(entity, row_id)) for entity, row_id in touched]
    return tuple(RowChange(entity, row_id, now) for entity, row_id, was, now in pairs if was != now)
