"""Database rows as contracts."""

from collections.abc import Mapping
from typing import Any

from shared.contracts.rows import MessageRow, TurnRow
from shared.metadata import shown_metadata
from shared.times import format_microseconds

Columns = Mapping[str, Any]
"""One database row: a column's Python type is what the driver makes of it."""


def message_row(row: Columns, session_id: str) -> MessageRow:
    """A row of `task_session_messages`."""
    return MessageRow(
        id=row["id"],
        session_id=session_id,
        task_id=row["task_id"],
        turn_id=row["turn_id"],
        author_type=row["author_type"],
        author_id=row["author_id"],
        content=row["content"],
        requests_input=row["requests_input"],
        type=row["type"],
        metadata=shown_metadata(row["metadata"]),
        created_at=format_microseconds(row["created_at"]),
        updated_at=format_microseconds(row["updated_at"]),
        prompt_seq=row["prompt_seq"],
    )


def turn_row(row: Columns, session_id: str) -> TurnRow:
    """A row of `task_session_turns`."""
    return TurnRow(
        id=row["id"],
        session_id=session_id,
        task_id=row["task_id"],
        started_at=format_microseconds(row["started_at"]),
        completed_at=None if row["completed_at"] is None else format_microseconds(row["completed_at"]),
        execution_profile_id=row["execution_profile_id"],
        route_generation=row["route_generation"],
        metadata=shown_metadata(row["metadata"]),
        created_at=format_microseconds(row["created_at"]),
        updated_at=format_microseconds(row["updated_at"]),
    )
