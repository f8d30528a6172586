"""Rows as first-party clients and plugins may see them (pure). Nothing else turns a source row into what leaves the
gateway.
"""

from typing import Any

from shared.contracts.rows import MessageRow, TurnRow
from shared.sanitizer import has_system_content, public_content, strip_system_content

Json = dict[str, Any]


def core_message(row: MessageRow) -> Json:
    """A `CoreMessage` as JSON: content without system blocks; the unstripped text beside it only where something was
    stripped.
    """
    hidden = has_system_content(row.content)
    metadata = {**(row.metadata or {}), "has_hidden_prompts": True} if hidden else row.metadata
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
            "metadata": metadata or None,
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
            "metadata": row.metadata or None,
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
            "type": row.type or "message",
            "content": public_content(row.content),
            "createdAt": row.created_at,
            "updatedAt": row.updated_at,
            "promptIndex": row.prompt_seq if row.author_type == "user" and row.prompt_seq > 0 else None,
            "senderTaskId": _sender_task(row),
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


def _sender_task(row: MessageRow) -> str | None:
    """The task whose agent sent a prompt. Metadata is its writer's: anything but a name is none."""
    sender = (row.metadata or {}).get("sender_task_id")
    return sender or None if isinstance(sender, str) else None


def _present(fields: Json) -> Json:
    return {name: value for name, value in fields.items() if value is not None}
