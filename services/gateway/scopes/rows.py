"""Rows as first-party clients and plugins may see them (pure). Nothing else turns a source row into what leaves the
gateway.
"""

from typing import Any

import orjson

from shared.contracts.rows import DEFAULT_TYPE, MessageRow, TurnRow
from shared.metadata import text_under, with_hidden_prompts
from shared.sanitizer import has_system_content, public_content, strip_system_content

Json = dict[str, Any]  # Any: among the values are pieces of JSON that only its encoder knows


def core_message(row: MessageRow) -> Json:
    """A `CoreMessage` as JSON: content without system blocks; the unstripped text beside it only where something was
    stripped.
    """
    hidden = has_system_content(row.content)
    metadata = with_hidden_prompts(row.metadata) if hidden else row.metadata
    return _present(
        {
            "id": row.id,
            "session_id": row.session_id,
            "task_id": row.task_id or None,
            "turn_id": row.turn_id or None,
            "author_type": row.author_type,
            "author_id": row.author_id or None,
            "type": row.type or None,
            "content": strip_system_content(row.content),
            "raw_content": row.content if hidden else None,
            "requests_input": row.requests_input,
            "metadata": _spliced(metadata),
            "created_at": row.created_at,
            "updated_at": row.updated_at,
            "prompt_index": row.prompt_seq if row.author_type == "user" and row.prompt_seq > 0 else None,
        }
    )


def core_turn(row: TurnRow) -> Json:
    """A `CoreTurn` as JSON."""
    return _present(
        {
            "id": row.id,
            "session_id": row.session_id,
            "task_id": row.task_id or None,
            "started_at": row.started_at,
            "completed_at": row.completed_at,
            "execution_profile_id": row.execution_profile_id or None,
            "route_generation": row.route_generation,
            "metadata": _spliced(row.metadata),
            "created_at": row.created_at,
            "updated_at": row.updated_at,
        }
    )


def plugin_message(row: MessageRow) -> Json:
    """A `PluginMessage` as JSON: of the metadata, the sending task alone; of the content, nothing of a system block,
    finished or not.
    """
    shown = _present(
        {
            "id": row.id,
            "sessionId": row.session_id,
            "turnId": row.turn_id or None,
            "authorType": row.author_type,
            "type": row.type or DEFAULT_TYPE,
            "content": public_content(row.content),
            "createdAt": row.created_at,
            "updatedAt": row.updated_at,
            "promptIndex": row.prompt_seq if row.author_type == "user" and row.prompt_seq > 0 else None,
            "senderTaskId": text_under("sender_task_id", row.metadata),
        }
    )
    return {**shown, "taskId": row.task_id or None}


def plugin_turn(row: TurnRow) -> Json:
    """A `PluginTurn` as JSON."""
    shown = _present(
        {
            "id": row.id,
            "sessionId": row.session_id,
            "startedAt": row.started_at,
            "completedAt": row.completed_at,
            "updatedAt": row.updated_at,
        }
    )
    return {**shown, "taskId": row.task_id or None}


def _spliced(metadata: str | None) -> orjson.Fragment | None:
    return None if metadata is None else orjson.Fragment(metadata)


def _present(fields: Json) -> Json:
    return {name: value for name, value in fields.items() if value is not None}
