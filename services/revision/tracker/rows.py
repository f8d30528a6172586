"""A row as the log carries it becomes the row that the contracts describe.

Tables that were there before this schema are read as the readers of pages read them (`services.reader.rows`): what may
be NULL there, booleans that are integers, authors of other kinds.

The result is a plain document with exactly the fields of `MessageRow` or `TurnRow`: the tracker's hot path encodes
it once and validates nothing twice; that each document satisfies its contract is what the tests of this module are
for.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias

from services.revision.tracker.pgoutput import UNCHANGED, Value
from shared.contracts.rows import Entity, author_of, type_of
from shared.metadata import shown_metadata
from shared.times import from_postgres

Columns: TypeAlias = Mapping[str, Value]
Document: TypeAlias = dict[str, object]

_BOOLEANS: Final = {b"t": True, b"f": False}


class RowError(ValueError):
    """A row that the contracts cannot express. Names the column, never its value."""


def document(entity: Entity, columns: Columns) -> Document:
    """The row as a contract document. Raises RowError for a column that is missing, not logged, or not expressible."""
    return _message(columns) if entity == "message" else _turn(columns)


def _message(columns: Columns) -> Document:
    return {
        "id": _text(columns, "id"),
        "session_id": _text(columns, "task_session_id"),
        "task_id": _optional_text(columns, "task_id"),
        "turn_id": _optional_text(columns, "turn_id"),
        "author_type": author_of(_text(columns, "author_type")),
        "author_id": _optional_text(columns, "author_id") or "",
        "content": _optional_text(columns, "content") or "",
        "requests_input": _boolean(columns, "requests_input"),
        "type": type_of(_optional_text(columns, "type")),
        "metadata": _metadata(columns),
        "created_at": _time(columns, "created_at"),
        "updated_at": _time(columns, _told(columns, "updated_at", "created_at")),
        "prompt_seq": _optional_integer(columns, "prompt_seq") or 0,
    }


def _turn(columns: Columns) -> Document:
    return {
        "id": _text(columns, "id"),
        "session_id": _text(columns, "task_session_id"),
        "task_id": _optional_text(columns, "task_id"),
        "started_at": _time(columns, "started_at"),
        "completed_at": None if _logged(columns, "completed_at") is None else _time(columns, "completed_at"),
        "execution_profile_id": _optional_text(columns, "execution_profile_id"),
        "route_generation": _optional_integer(columns, "route_generation"),
        "metadata": _metadata(columns),
        "created_at": _time(columns, _told(columns, "created_at", "started_at")),
        "updated_at": _time(columns, _told(columns, "updated_at", "created_at", "started_at")),
    }


def _logged(columns: Columns, name: str) -> bytes | None:
    try:
        value = columns[name]
    except KeyError:
        raise RowError(f"column {name} is missing") from None
    if value is UNCHANGED:
        raise RowError(f"column {name} is not in the log")
    return value


def _required(columns: Columns, name: str) -> bytes:
    value = _logged(columns, name)
    if value is None:
        raise RowError(f"column {name} is NULL")
    return value


def _text(columns: Columns, name: str) -> str:
    return _required(columns, name).decode()


def _optional_text(columns: Columns, name: str) -> str | None:
    value = _logged(columns, name)
    return None if value is None else value.decode()


def _optional_integer(columns: Columns, name: str) -> int | None:
    value = _logged(columns, name)
    return None if value is None else _integer(name, value)


def _integer(name: str, value: bytes) -> int:
    try:
        return int(value)
    except ValueError:
        raise RowError(f"column {name} is not an integer") from None


def _boolean(columns: Columns, name: str) -> bool:
    """NULL is false; an integer is true where it is not 0."""
    value = _logged(columns, name)
    if value is None:
        return False
    known = _BOOLEANS.get(value)
    return _integer(name, value) != 0 if known is None else known


def _told(columns: Columns, *names: str) -> str:
    """The first of these columns that is not NULL; the last where all are."""
    return next((name for name in names if _logged(columns, name) is not None), names[-1])


def _time(columns: Columns, name: str) -> str:
    text = _text(columns, name)
    try:
        return from_postgres(text)
    except ValueError:
        raise RowError(f"column {name} is not a timestamp that RFC 3339 can express") from None


def _metadata(columns: Columns) -> str | None:
    return shown_metadata(_optional_text(columns, "metadata"))
