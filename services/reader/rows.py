"""Database rows as the JSON of contracts.

In a database that was there before this schema much may be NULL: the author's id is nobody's then, a content empty, a
type `message`, no input asked for and no ordinal given; and a missing time is that of the row's arrival. A boolean may
be an integer there, and an author another word (`author_of`). The tracker reads them alike.

A page's rows are most of what a reader does: they are encoded once, and no model is made of them. That their JSON is
what `MessageRow` and `TurnRow` say is what the tests of pages are for.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from shared.broker.long_texts import LONG_CHARACTERS
from shared.contracts.rows import author_of, type_of
from shared.metadata import shown_metadata
from shared.sanitizer import has_system_content
from shared.times import format_microseconds

Columns = Mapping[str, Any]
"""One database row: a column's Python type is what the driver makes of it."""


_SHORT_ESCAPES = b'"\\\b\f\n\r\t'
_LONG_ESCAPES = bytes(set(range(0x20)) - set(_SHORT_ESCAPES))


class EncodedRow(NamedTuple):
    """A row's JSON. `weight`: most bytes that it takes in a page as clients see it. `long`: its content, where that is
    too long to stand in the JSON.
    """

    json: bytes
    weight: int
    long: str | None = None


def message_row(row: Columns, session_id: str) -> EncodedRow:
    """A row of `task_session_messages` as a `MessageRow`."""
    content: str = row["content"] or ""
    updated = row["updated_at"]
    long = content if len(content) > LONG_CHARACTERS else None
    encoded = orjson.dumps(
        {
            "id": row["id"],
            "session_id": session_id,
            "task_id": row["task_id"],
            "turn_id": row["turn_id"],
            "author_type": author_of(row["author_type"]),
            "author_id": row["author_id"] or "",
            "content": content if long is None else "",
            "requests_input": bool(row["requests_input"]),
            "type": type_of(row["type"]),
            "metadata": shown_metadata(row["metadata"]),
            "created_at": format_microseconds(row["created_at"]),
            "updated_at": format_microseconds(row["created_at"] if updated is None else updated),
            "prompt_seq": row["prompt_seq"] or 0,
        }
    )
    # What is stripped of something is shown twice: as it is, and as it is without that.
    weight = len(encoded) + (0 if long is None else _encoded_size(long))
    return EncodedRow(encoded, weight * (2 if has_system_content(content) else 1), long)


def _encoded_size(text: str) -> int:
    """Bytes of a text as JSON, without making that."""
    plain = text.encode()
    short = len(plain) - len(plain.translate(None, _SHORT_ESCAPES))
    long = len(plain) - len(plain.translate(None, _LONG_ESCAPES))
    return len(plain) + short + 5 * long


def turn_row(row: Columns, session_id: str) -> EncodedRow:
    """A row of `task_session_turns` as a `TurnRow`."""
    created = row["started_at"] if row["created_at"] is None else row["created_at"]
    encoded = orjson.dumps(
        {
            "id": row["id"],
            "session_id": session_id,
            "task_id": row["task_id"],
            "started_at": format_microseconds(row["started_at"]),
            "completed_at": None if row["completed_at"] is None else format_microseconds(row["completed_at"]),
            "execution_profile_id": row["execution_profile_id"],
            "route_generation": row["route_generation"],
            "metadata": shown_metadata(row["metadata"]),
            "created_at": format_microseconds(created),
            "updated_at": format_microseconds(created if row["updated_at"] is None else row["updated_at"]),
        }
    )
    return EncodedRow(encoded, len(encoded))
