"""Commands on sessions."""

import asyncpg

from services.revision.commands.session import open_session, sees_session, standing, unchanged
from services.revision.commands.values import is_metadata, is_moment, named_moment, refuse_nul
from services.revision.commands.workspaces import require_task
from shared.contracts.commands import CommandResult, CreateSession, DeleteSession, UpdateSession
from shared.contracts.errors import RequestFailed
from shared.contracts.identity import Identity

# Primary keys.
_LOOK = "SELECT task_id, state, is_passthrough, metadata, started_at FROM public.task_sessions WHERE id = $1"
_ADD = """
INSERT INTO public.task_sessions (id, task_id, state, is_passthrough, metadata, started_at)
VALUES ($1, $2, $3, $4, $5, coalesce($6::timestamptz, clock_timestamp()))
"""
_LOCK = "SELECT FROM public.task_sessions WHERE id = $1 FOR UPDATE"
_UPDATE = """
UPDATE public.task_sessions
   SET state = $2, updated_at = greatest(clock_timestamp(), updated_at + interval '1 microsecond')
 WHERE id = $1 AND state <> $2
"""
_DELETE = "DELETE FROM public.task_sessions WHERE id = $1"


async def create_session(connection: asyncpg.Connection, identity: Identity, command: CreateSession) -> CommandResult:
    """A session of a visible task. Its first revision is the floor (R1); the base is 0, there was nothing before.

    An id that another session has is told before anything about the task: who asks can know it before making one.
    """
    refuse_nul(command.state)
    started_at = named_moment(command.started_at)
    row = await connection.fetchrow(_LOOK, command.session_id)
    if row is not None:
        same = (
            (row["task_id"], row["state"], row["is_passthrough"])
            == (command.task_id, command.state, command.is_passthrough)
            and is_metadata(row["metadata"], command.metadata)
            and (started_at is None or is_moment(row["started_at"], started_at))
        )
        if not same:
            raise RequestFailed("conflict", "this id belongs to another session, or to this one after it was changed")
    await require_task(connection, identity, command.task_id)
    if row is not None:
        return await unchanged(connection, command.session_id)
    await connection.execute(
        _ADD,
        command.session_id,
        command.task_id,
        command.state,
        command.is_passthrough,
        command.metadata,
        started_at,
    )
    epoch, revision = await standing(connection, command.session_id)
    return CommandResult(session_id=command.session_id, epoch=epoch, base_revision=0, revision=revision)


async def update_session(connection: asyncpg.Connection, identity: Identity, command: UpdateSession) -> CommandResult:
    """One that is in that state already stays as it is."""
    refuse_nul(command.state)
    session = await open_session(connection, identity, command.session_id)
    await connection.execute(_UPDATE, command.session_id, command.state)
    return await session.unchanged(connection)


async def delete_session(connection: asyncpg.Connection, identity: Identity, command: DeleteSession) -> CommandResult:
    """One that the asker does not see is answered as one that is not there: there is nothing to delete.

    The removal's revision is the last one + 1. Commands cannot advance it while the row is locked; a plain update
    of its messages that commits in between makes the removal's one later than this answer says.
    """
    epoch, _ = await standing(connection, command.session_id)
    seen = await sees_session(connection, identity, command.session_id)
    if not seen or await connection.fetchrow(_LOCK, command.session_id) is None:
        return CommandResult(session_id=command.session_id, epoch=epoch)
    epoch, last = await standing(connection, command.session_id)
    await connection.execute(_DELETE, command.session_id)
    return CommandResult(session_id=command.session_id, epoch=epoch, base_revision=last, revision=last + 1)
