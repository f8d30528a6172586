"""A followed conversation as lines: for a pipe or a log, and as JSON for programs."""

from collections.abc import Callable
from dataclasses import asdict

import orjson

from cli.tail_text import Clock, Growing, in_time, last_part, one_line, stamp
from client.range import Key, Row, RowChange
from client.state import State
from shared.contracts.rows import Entity
from shared.contracts.wire import CoreMessage, CoreTurn

EPOCH_CHARACTERS = 8
"""As much of an epoch as tells it from another one."""

Print = Callable[[str], None]


def message_cells(message: CoreMessage, clock: Clock) -> tuple[str, str, str, str]:
    """Time, author, type and ordinal of a message."""
    ordinal = "" if message.prompt_index is None else f"#{message.prompt_index}"
    return clock.text(message.created_at), message.author_type, message.type or "message", ordinal


def turn_text(turn: CoreTurn) -> str:
    """What a turn's row says."""
    return f"turn {turn.id} {'completed' if turn.completed_at else 'started'}"


def footer(state: State) -> str:
    """Where the scope stands and what it went through."""
    held, counters = state.held, state.counters
    place = "no rows yet" if held is None else f"revision {held.revision}  epoch {held.epoch[:EPOCH_CHARACTERS]}"
    return (
        f"{state.status}  {place}  gaps {counters.gaps}  repairs {counters.repairs}  "
        f"resets {counters.resets}  frames {counters.frames}"
    )


class AppendedLines:
    """Appends a line for each change of a row and of the status, rows in the order of their times.

    Of what was there at first, turns that began before the oldest message shown are left out: their messages are not
    to be seen either. Later on every turn is told, and no message from before that boundary: lines only go on.
    """

    def __init__(self, write: Print, clock: Clock | None = None) -> None:
        self._write = write
        self._clock = clock or Clock()
        self._growing = Growing()
        self._written: dict[tuple[Entity, str], tuple[Key, str]] = {}
        self._followed = False
        self._boundary: Key | None = None
        self._status = ""

    def show(self, state: State, changes: tuple[RowChange, ...]) -> None:
        """Writes what is new."""
        if state.held is not None and state.held.messages.low is not None:
            low = state.held.messages.low
            self._boundary = low if self._boundary is None else max(low, self._boundary)
        for change in changes:
            self._growing.note(change)
            if change.row is None:
                self._forget(change)
        for row in sorted((change.row for change in changes if change.row is not None), key=in_time):
            if self._is_told(row):
                self._tell(row)
        self._followed = state.held is not None
        if state.status != self._status:
            self._status = state.status
            self._write(f"-- {footer(state)}")

    def _forget(self, change: RowChange) -> None:
        key, _ = self._written.pop((change.entity, change.id), (None, ""))
        # A message below the boundary is there still: a repair keeps no more of a long range than it reads (C5).
        if key is not None and (change.entity == "turn" or not self._is_below(key)):
            self._write(f"{'':8}  {change.entity} {change.id} is no longer shown")

    def _is_told(self, row: Row) -> bool:
        return not self._is_below(row.key) or (row.entity == "turn" and self._followed)

    def _is_below(self, key: Key) -> bool:
        return self._boundary is not None and key < self._boundary

    def _tell(self, row: Row) -> None:
        line = self._line(row)
        _, before = self._written.get((row.entity, row.id), (None, ""))
        self._written[row.entity, row.id] = row.key, line
        if line != before:
            self._write(line)

    def _line(self, row: Row) -> str:
        match row.body:
            case CoreMessage() as message:
                time, author, kind, ordinal = message_cells(message, self._clock)
                piece = last_part if message.id in self._growing else one_line
                return f"{time}  {author:<5}  {kind:<12}  {ordinal:>5}  {piece(message.content)}".rstrip()
            case CoreTurn() as turn:
                return f"{self._clock.text(stamp(row))}  {turn_text(turn)}"


class JsonLines:
    """Writes one JSON object for each change of a row and of the status.

    Rows: `{"event":"row","kind":"upsert"|"remove","entity","id","epoch","revision","message"|"turn"?}`. Status:
    `{"event":"state","status","epoch","revision","has_more","counters":{…},"reason"?}`; `reason` once it is closed.
    """

    def __init__(self, write: Print) -> None:
        self._write = write
        self._status = ""

    def show(self, state: State, changes: tuple[RowChange, ...]) -> None:
        """Writes what is new."""
        for change in changes:
            self._write(orjson.dumps({"event": "row", **_change(change), **_position(state)}).decode())
        if state.status != self._status:
            self._status = state.status
            self._write(orjson.dumps({"event": "state", **_status(state), **_position(state)}).decode())


def _change(change: RowChange) -> dict[str, object]:
    named: dict[str, object] = {"entity": change.entity, "id": change.id}
    if change.row is None:
        return {"kind": "remove", **named}
    return {"kind": "upsert", **named, change.entity: change.row.body.model_dump(mode="json", exclude_none=True)}


def _position(state: State) -> dict[str, object]:
    held = state.held
    return {"epoch": "" if held is None else held.epoch, "revision": "" if held is None else str(held.revision)}


def _status(state: State) -> dict[str, object]:
    status: dict[str, object] = {
        "status": state.status,
        "has_more": state.held is not None and state.held.has_more,
        "counters": asdict(state.counters),
    }
    return status if state.closed is None else {**status, "reason": state.closed.value}
