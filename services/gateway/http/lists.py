"""First-party lists of workspaces, tasks and sessions."""

from aiohttp import web

from services.gateway.http.keys import IDENTITY, SOURCE
from services.gateway.http.queries import text
from shared.contracts.base import Contract
from shared.contracts.reads import SessionList, TaskList, WorkspaceList


async def list_workspaces(request: web.Request) -> web.Response:
    """The workspaces that the asker may see."""
    answer = await request.app[SOURCE].list(WorkspaceList(identity=request[IDENTITY]))
    return _listed("workspaces", answer.workspaces)


async def list_tasks(request: web.Request) -> web.Response:
    """Tasks, newest first; of one workspace with `workspace_id`."""
    wanted = TaskList(identity=request[IDENTITY], workspace_id=text(request, "workspace_id"))
    return _listed("tasks", (await request.app[SOURCE].list(wanted)).tasks)


async def list_sessions(request: web.Request) -> web.Response:
    """Sessions, newest first; of one task with `task_id`."""
    wanted = SessionList(identity=request[IDENTITY], task_id=text(request, "task_id"))
    return _listed("sessions", (await request.app[SOURCE].list(wanted)).sessions)


def _listed(name: str, rows: tuple[Contract, ...]) -> web.Response:
    body = [row.model_dump(mode="json", exclude_none=True) for row in rows]
    return web.json_response({name: body, "total": len(body)}, headers={"Cache-Control": "no-store"})
