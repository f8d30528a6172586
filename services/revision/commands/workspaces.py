"""Commands on workspaces and tasks. They concern no single session: their results name none."""

import asyncpg

from services.revision.commands.values import refuse_nul
from shared.contracts.commands import CommandResult, CreateTask, CreateWorkspace, DeleteTask, RemoveMember, SetMember
from shared.contracts.errors import RequestFailed
from shared.contracts.identity import Identity

# Primary keys all; the sessions of a task by task_sessions_task.
_WORKSPACE = "SELECT name, owner_id FROM public.workspaces WHERE id = $1"
_ADD_WORKSPACE = "INSERT INTO public.workspaces (id, name, owner_id) VALUES ($1, $2, $3)"
_WORKSPACE_VISIBLE = "SELECT conversation.workspace_visible($1, $2, $3)"
_LOCK_WORKSPACE = "SELECT owner_id FROM public.workspaces WHERE id = $1 FOR SHARE"
_ADD_MEMBER = "INSERT INTO public.workspace_members (workspace_id, user_id) VALUES ($1, $2) ON CONFLICT DO NOTHING"
_REMOVE_MEMBER = "DELETE FROM public.workspace_members WHERE workspace_id = $1 AND user_id = $2"
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
    own = "" if identity.unscoped else identity.user
    owner = own if command.owner_id is None else command.owner_id
    refuse_nul(command.name, owner)
    if not identity.unscoped and owner not in {"", identity.user}:
        raise RequestFailed("invalid_query", "owner_id is neither you nor empty (everyone)")
    row = await connection.fetchrow(_WORKSPACE, command.workspace_id)
    if row is None:
        await connection.execute(_ADD_WORKSPACE, command.workspace_id, command.name, owner)
    elif (row["name"], row["owner_id"]) != (command.name, owner):
        raise RequestFailed("conflict", "this id belongs to another workspace")
    return CommandResult()


async def set_member(connection: asyncpg.Connection, identity: Identity, command: SetMember) -> CommandResult:
    """Makes a user a member."""
    await _require_management(connection, identity, command)
    await connection.execute(_ADD_MEMBER, command.workspace_id, command.user_id)
    return CommandResult()


async def remove_member(connection: asyncpg.Connection, identity: Identity, command: RemoveMember) -> CommandResult:
    """Ends a membership."""
    await _require_management(connection, identity, command)
    await connection.execute(_REMOVE_MEMBER, command.workspace_id, command.user_id)
    return CommandResult()


async def _require_management(
    connection: asyncpg.Connection, identity: Identity, command: SetMember | RemoveMember
) -> None:
    """Raises RequestFailed: `not_found` where the asker does not see the workspace, `forbidden` where they see it and
    do not manage it. The owner stays who it is until the commit.
    """
    await _require_workspace(connection, identity, command.workspace_id)
    owner = await connection.fetchval(_LOCK_WORKSPACE, command.workspace_id)
    if not (identity.unscoped or command.administrator or owner == identity.user):
        raise RequestFailed("forbidden", "only the workspace's owner or an administrator may change its members")


async def _require_workspace(connection: asyncpg.Connection, identity: Identity, workspace_id: str) -> None:
    if not await connection.fetchval(_WORKSPACE_VISIBLE, workspace_id, identity.user, identity.unscoped):
        raise RequestFailed("not_found", "there is no such workspace, or it is not yours to see")


async def create_task(connection: asyncpg.Connection, identity: Identity, command: CreateTask) -> CommandResult:
    """A task of a workspace that the asker may see."""
    refuse_nul(command.title)
    await _require_workspace(connection, identity, command.workspace_id)
    row = await connection.fetchrow(_TASK, command.task_id)
    if row is None:
        await connection.execute(_ADD_TASK, command.task_id, command.workspace_id, command.title)
    elif (row["workspace_id"], row["title"]) != (command.workspace_id, command.title):
        raise RequestFailed("conflict", "this id belongs to another task")
    return CommandResult()


async def delete_task(connection: asyncpg.Connection, identity: Identity, command: DeleteTask) -> CommandResult:
    """One that the asker does not see is answered as one that is not there: there is nothing to delete.

    Its sessions are locked in order first: the cascade has none, and would wait crosswise with a bulk statement.
    """
    if await connection.fetchval(_TASK_VISIBLE, command.task_id, identity.user, identity.unscoped):
        await connection.execute(_LOCK_TASK, command.task_id)
        await connection.execute(_LOCK_SESSIONS, command.task_id)
        await connection.execute(_DELETE_TASK, command.task_id)
    return CommandResult()


async def require_task(connection: asyncpg.Connection, identity: Identity, task_id: str) -> None:
    """Raises RequestFailed `not_found` for a task that is not there or not the asker's to see."""
    if not await connection.fetchval(_TASK_VISIBLE, task_id, identity.user, identity.unscoped):
        raise RequestFailed("not_found", "there is no such task, or it is not yours to see")
