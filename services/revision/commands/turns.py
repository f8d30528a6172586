"""Commands on turns."""

import asyncpg

from services.revision.commands.session import open_session
from services.revision.commands.values import is_metadata, is_moment, named_moment, refuse_nul
from services.revision.commands.workspaces import require_task
from shared.contracts.commands import CommandResult, CompleteTurn, StartTurn
from shared.contracts.errors import RequestFailed
from shared.contracts.identity import Identity

# Primary key.
_LOOK = """
SELECT task_session_id, task_id, execution_profile_id, route_generation, metadata, started_at
  FROM public.task_session_turns WHERE id = $1
"""
_ADD = """
INSERT INTO public.task_session_turns
    (id, task_session_id, task_id, execution_profile_id, route_generation, metadata, started_at)
VALUES ($1, $2, $3, $4, $5, $6, coalesce($7::timestamptz, clock_timestamp()))
"""
_LOCK = """
SELECT completed_at FROM public.task_session_turns WHERE id = $1 AND task_session_id = $2 FOR NO KEY UPDATE
"""
_COMPLETE = """
UPDATE public.task_session_turns
   SET completed_at = coalesce($2::timestamptz, clock_timestamp()),
       updated_at = greatest(clock_timestamp(), updated_at + interval '1 microsecond')
 WHERE id = $1
"""


async def start_turn(connection: asyncpg.Connection, identity: Identity, command: StartTurn) -> CommandResult:
    """A turn that was started by the same request is started already."""
    refuse_nul(command.execution_profile_id)
    started_at = named_moment(command.started_at)
    session = await open_session(connection, identity, command.session_id)
    row = await connection.fetchrow(_LOOK, command.turn_id)
    if row is not None:
        same = (
            row["task_session_id"] == command.session_id
            and command.task_id in {None, row["task_id"]}
            and row["execution_profile_id"] == command.execution_profile_id
            and row["route_generation"] == command.route_generation
            and is_metadata(row["metadata"], command.metadata)
            and (started_at is None or is_moment(row["started_at"], started_at))
        )
        if not same:
            raise RequestFailed("conflict", "this id belongs to another turn, or to this one after it was changed")
        return await session.unchanged(connection)
    if command.task_id not in {None, session.task_id}:
        await require_task(connection, identity, command.task_id or "")
    await connection.execute(
        _ADD,
        command.turn_id,
        command.session_id,
        command.task_id or session.task_id,
        command.execution_profile_id,
        command.route_generation,
        command.metadata,
        started_at,
    )
    return await session.changed(connection)


async def complete_turn(connection: asyncpg.Connection, identity: Identity, command: CompleteTurn) -> CommandResult:
    """A turn that is complete stays as it is."""
    completed_at = named_moment(command.completed_at)
    session = await open_session(connection, identity, command.session_id)
    row = await connection.fetchrow(_LOCK, command.turn_id, command.session_id)
    if row is None:
        raise RequestFailed("not_found", "there is no such turn in this session")
    if row["completed_at"] is not None:
        return await session.unchanged(connection)
    await connection.execute(_COMPLETE, command.turn_id, completed_at)
    return await session.changed(connection)
