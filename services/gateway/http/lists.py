"""First-party lists of workspaces, tasks and sessions."""

from aiohttp import web

from services.gateway.http.keys import IDENTITY, SOURCE
from services.gateway.http.queries import text
from services.gateway.http.routes import Answer, Json, Parameter, Route, sparse
from shared.contracts.base import Contract
from shared.contracts.reads import SessionList, SessionRow, TaskList, TaskRow, WorkspaceList, WorkspaceRow


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


def _list_of(name: str, row: type[Contract]) -> Json:
    return {
        "type": "object",
        "required": [name, "total"],
        "properties": {
            name: {"type": "array", "items": {"$ref": f"#/$defs/{row.__name__}"}},
            "total": {"type": "integer", "minimum": 0},
        },
        "$defs": {row.__name__: sparse(row)},
    }


ROUTES = (
    Route(
        "GET",
        "/api/v1/workspaces",
        list_workspaces,
        "The workspaces that the caller may see",
        "conversations",
        (Answer(200, "Workspaces by name.", _list_of("workspaces", WorkspaceRow)),),
    ),
    Route(
        "GET",
        "/api/v1/tasks",
        list_tasks,
        "Tasks, newest first",
        "conversations",
        (Answer(200, "At most 500 tasks.", _list_of("tasks", TaskRow)),),
        parameters=(Parameter("workspace_id", "Only tasks of this workspace."),),
    ),
    Route(
        "GET",
        "/api/v1/task-sessions",
        list_sessions,
        "Sessions, newest first",
        "conversations",
        (Answer(200, "At most 500 sessions.", _list_of("sessions", SessionRow)),),
        parameters=(Parameter("task_id", "Only sessions of this task."),),
    ),
)
