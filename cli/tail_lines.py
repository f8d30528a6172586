"""A followed conversation as lines: for a pipe or a log, and as JSON for programs."""

from collections.abc import Callable
from dataclasses import asdict

import orjson

from client.range import Row, RowChange
from client.state import State
from shared.contracts.wire import CoreMessage, CoreTurn

CONTENT_CHARACTERS = 160
"""Longest piece of a message's content on a line."""

EPOCH_CHARACTERS = 8
"""As much of an epoch as tells it from another one."""

Print = Callable[[str], None]


def one_line(text: str, width: int = CONTENT_CHARACTERS) -> str:
    """Text with its white space and control characters drawn together, cut to a width."""
    # Cut first: a message may hold megabytes. A terminal must not be steered by what it shows.
    cut = "".join(char if char.isprintable() else " " for char in text[: 4 * width])
    joined = " ".join(cut.split())
    return joined if len(joined) <= width and len(text) <= 4 * width else joined[: width - 1] + "…"


def message_cells(message: CoreMessage) -> tuple[str, str, str, str]:
    """Time of day (UTC), author, type and ordinal of a message."""
    ordinal = "" if message.prompt_index is None else f"#{message.prompt_index}"
    return message.created_at[11:19], message.author_type, message.type or "message", ordinal


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

    Turns that began before the oldest message shown are left out: their messages are not to be seen either.
    """

    def __init__(self, write: Print) -> None:
        self._write = write
        self._status = ""

    def show(self, state: State, changes: tuple[RowChange, ...]) -> None:
        """Writes what is new."""
        for change in changes:
            if change.row is None:
                self._write(_removed(change))
        oldest = None if state.held is None else state.held.messages.low
        shown = [change.row for change in changes if change.row is not None]
        for row in sorted(shown, key=lambda row: row.key):
            if row.entity == "message" or oldest is None or row.key >= oldest:
                self._write(_line(row))
        if state.status != self._status:
            self._status = state.status
            self._write(f"-- {footer(state)}")


def _removed(change: RowChange) -> str:
    return f"{'':8}  {change.entity} {change.id} is no longer shown"


def _line(row: Row) -> str:
    match row.body:
        case CoreMessage() as message:
            time, author, kind, ordinal = message_cells(message)
            return f"{time}  {author:<5}  {kind:<12}  {ordinal:>5}  {one_line(message.content)}".rstrip()
        case CoreTurn() as turn:
            return f"{turn.started_at[11:19]}  turn {turn.id} {'completed' if turn.completed_at else 'started'}"


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
