"""Commands on messages, except appends."""

import asyncpg

from services.revision.commands.session import open_session, standing
from services.revision.commands.values import is_metadata, is_moment, moment, named_moment, refuse_nul
from services.revision.commands.workspaces import require_task
from shared.contracts.commands import CommandResult, CreateMessage, DeleteMessage, UpdateMessage
from shared.contracts.errors import RequestFailed
from shared.contracts.identity import Identity
from shared.times import format_microseconds

EXPLICIT_TIME_REFUSED = "KC001"
"""SQLSTATE of the source's refusal of a `created_at` that is not strictly after the newest prompt's."""

_COLUMNS = (
    "task_session_id, task_id, turn_id, author_type, author_id, content, requests_input, type, metadata, created_at"
)

# Primary key. Looked at before inserting: a refused insert would have taken the session's counter first.
_LOOK = f"SELECT {_COLUMNS} FROM public.task_session_messages WHERE id = $1"  # noqa: S608 - a constant list

_ADD = f"""
INSERT INTO public.task_session_messages (id, {_COLUMNS}, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11::timestamptz, $11::timestamptz)
"""  # noqa: S608 - a constant list

# task_session_messages_prompt_keyset.
_NEWEST_PROMPT = """
SELECT max(created_at) FROM public.task_session_messages WHERE task_session_id = $1 AND author_type = 'user'
"""

# Primary key. An update that is NULL, as earlier tables may have it, is told as the time of arrival.
_LOCK = """
SELECT content, type, requests_input, metadata, turn_id, coalesce(updated_at, created_at) AS updated_at
  FROM public.task_session_messages WHERE id = $1 AND task_session_id = $2 FOR NO KEY UPDATE
"""

_UPDATE = """
UPDATE public.task_session_messages
   SET content = coalesce($2, content), type = coalesce($3, type), requests_input = coalesce($4, requests_input),
       metadata = coalesce($5, metadata), turn_id = coalesce($6, turn_id),
       updated_at = greatest(clock_timestamp(), coalesce(updated_at, created_at) + interval '1 microsecond')
 WHERE id = $1
"""

_DELETE = "DELETE FROM public.task_session_messages WHERE id = $1 AND task_session_id = $2 RETURNING id"


async def create_message(connection: asyncpg.Connection, identity: Identity, command: CreateMessage) -> CommandResult:
    """The source settles `created_at` and the ordinal. An explicit time that comes too early is a `conflict` whose
    details name the `newest` prompt's.
    """
    refuse_nul(command.content, command.type, command.author_id)
    created_at = named_moment(command.created_at)
    session = await open_session(connection, identity, command.session_id)
    row = await connection.fetchrow(_LOOK, command.message_id)
    if row is not None:
        if not _is_request(row, command, created_at):
            raise RequestFailed("conflict", "this id belongs to another message, or to this one after it was changed")
        return await session.unchanged(connection)
    if command.task_id not in {None, session.task_id}:
        await require_task(connection, identity, command.task_id or "")
    await _insert(connection, command, command.task_id or session.task_id, created_at)
    return await session.changed(connection)


async def update_message(connection: asyncpg.Connection, identity: Identity, command: UpdateMessage) -> CommandResult:
    """A row that equals the patch is done already, whatever was expected; otherwise the guard decides."""
    refuse_nul(command.content, command.type)
    expected_at = moment(command.expected_updated_at)
    session = await open_session(connection, identity, command.session_id)
    row = await connection.fetchrow(_LOCK, command.message_id, command.session_id)
    if row is None:
        raise RequestFailed("not_found", "there is no such message in this session")
    if _equals_patch(row, command):
        return await session.unchanged(connection)
    if expected_at is not None and not is_moment(row["updated_at"], expected_at):
        raise _changed_meanwhile(row["updated_at"])
    if command.expected_revision is not None:
        _, revision = await standing(connection, command.session_id)
        if revision != command.expected_revision:
            raise _changed_meanwhile(row["updated_at"], revision)
    await connection.execute(
        _UPDATE,
        command.message_id,
        command.content,
        command.type,
        command.requests_input,
        command.metadata,
        command.turn_id,
    )
    result = await session.changed(connection)
    # Only now is the revision locked: another commit may have come between the look and the update.
    if command.expected_revision is not None and result.base_revision != command.expected_revision:
        raise _changed_meanwhile(row["updated_at"], result.base_revision)
    return result


async def delete_message(connection: asyncpg.Connection, identity: Identity, command: DeleteMessage) -> CommandResult:
    """A message that is not there is deleted already."""
    session = await open_session(connection, identity, command.session_id)
    if await connection.fetchval(_DELETE, command.message_id, command.session_id) is None:
        return await session.unchanged(connection)
    return await session.changed(connection)


async def _insert(connection: asyncpg.Connection, command: CreateMessage, task_id: str, created_at: int | None) -> None:
    values = (
        command.message_id,
        command.session_id,
        task_id,
        command.turn_id,
        command.author_type,
        command.author_id,
        command.content,
        command.requests_input,
        command.type,
        command.metadata,
        created_at,
    )
    if created_at is None:
        await connection.execute(_ADD, *values)
        return
    try:
        async with connection.transaction():
            await connection.execute(_ADD, *values)
    except asyncpg.PostgresError as error:
        if error.sqlstate != EXPLICIT_TIME_REFUSED:
            raise
        newest = await connection.fetchval(_NEWEST_PROMPT, command.session_id)
        raise RequestFailed(
            "conflict",
            "created_at is not strictly after the newest user message: leave it out, or give a later time",
            newest=format_microseconds(newest),
        ) from None


def _is_request(row: asyncpg.Record, command: CreateMessage, created_at: int | None) -> bool:
    same = ("turn_id", "author_type", "author_id", "content", "requests_input", "type")
    return (
        row["task_session_id"] == command.session_id
        and command.task_id in {None, row["task_id"]}
        and all(row[name] == getattr(command, name) for name in same)
        and is_metadata(row["metadata"], command.metadata)
        and (created_at is None or is_moment(row["created_at"], created_at))
    )


def _equals_patch(row: asyncpg.Record, command: UpdateMessage) -> bool:
    plain = ("content", "type", "requests_input", "turn_id")
    return all(getattr(command, name) in {None, row[name]} for name in plain) and (
        command.metadata is None or is_metadata(row["metadata"], command.metadata)
    )


def _changed_meanwhile(updated_at: int, revision: int | None = None) -> RequestFailed:
    details: dict[str, object] = {"updated_at": format_microseconds(updated_at)}
    if revision is not None:
        details["revision"] = str(revision)
    return RequestFailed("conflict", "the message was changed meanwhile: read it, then decide", **details)
