"""Commands on workspaces and tasks. They concern no single session: their results name none."""

import asyncpg

from services.revision.commands.values import refuse_nul
from shared.contracts.commands import CommandResult, CreateTask, CreateWorkspace, DeleteTask
from shared.contracts.errors import RequestFailed
from shared.contracts.identity import Identity

# Primary keys all; the sessions of a task by task_sessions_task.
_WORKSPACE = "SELECT name, owner_id FROM public.workspaces WHERE id = $1"
_ADD_WORKSPACE = "INSERT INTO public.workspaces (id, name, owner_id) VALUES ($1, $2, $3)"
_WORKSPACE_VISIBLE = "SELECT conversation.workspace_visible($1, $2, $3)"
_TASK = "SELECT workspace_id, title FROM public.tasks WHERE id = $1"
_ADD_TASK = "INSERT INTO public.tasks (id, workspace_id, title) VALUES ($1, $2, $3)"
_TASK_VISIBLE = "SELECT conversation.task_visible($1, $2, $3)"
_LOCK_TASK = "SELECT FROM public.tasks WHERE id = $1 FOR UPDATE"
_LOCK_SESSIONS = "SELECT FROM public.task_sessions WHERE task_id = $1 ORDER BY id FOR UPDATE"
_DELETE_TASK = "DELETE FROM public.tasks WHERE id = $1"


async def create_workspace(
    connection: asyncpg.Connection, identity: Identity, command: CreateWorkspace
) -> CommandResult:
    """Nobody but an unscoped asker makes a workspace that belongs to somebody else."""
    refuse_nul(command.name, command.owner_id)
    if not identity.unscoped and command.owner_id not in {"", identity.user}:
        raise RequestFailed("invalid_query", "owner_id is neither you nor empty (everyone)")
    row = await connection.fetchrow(_WORKSPACE, command.workspace_id)
    if row is None:
        await connection.execute(_ADD_WORKSPACE, command.workspace_id, command.name, command.owner_id)
    elif (row["name"], row["owner_id"]) != (command.name, command.owner_id):
        raise RequestFailed("conflict", "this id belongs to another workspace")
    return CommandResult()


async def create_task(connection: asyncpg.Connection, identity: Identity, command: CreateTask) -> CommandResult:
    """A task of a workspace that the asker may see."""
    refuse_nul(command.title)
    if not await connection.fetchval(_WORKSPACE_VISIBLE, command.workspace_id, identity.user, identity.unscoped):
        raise RequestFailed("not_found", "there is no such workspace, or it is not yours to see")
    row = await connection.fetchrow(_TASK, command.task_id)
    if row is None:
        await connection.execute(_ADD_TASK, command.task_id, command.workspace_id, command.title)
    elif (row["workspace_id"], row["title"]) != (command.workspace_id, command.title):
        raise RequestFailed("conflict", "this id belongs to another task")
    return CommandResult()


async def delete_task(connection: asyncpg.Connection, identity: Identity, command: DeleteTask) -> CommandResult:
    """Its sessions are locked in order first: the cascade has none, and would wait crosswise with a bulk statement."""
    if await connection.fetchval("SELECT EXISTS (SELECT FROM public.tasks WHERE id = $1)", command.task_id):
        await require_task(connection, identity, command.task_id)
        await connection.execute(_LOCK_TASK, command.task_id)
        await connection.execute(_LOCK_SESSIONS, command.task_id)
        await connection.execute(_DELETE_TASK, command.task_id)
    return CommandResult()


async def require_task(connection: asyncpg.Connection, identity: Identity, task_id: str) -> None:
    """Raises RequestFailed `not_found` for a task that is not there or not the asker's to see."""
    if not await connection.fetchval(_TASK_VISIBLE, task_id, identity.user, identity.unscoped):
        raise RequestFailed("not_found", "there is no such task, or it is not yours to see")
