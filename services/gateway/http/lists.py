"""First-party lists of workspaces, tasks and sessions, and a task with what its page begins with."""

from collections.abc import Iterable

from aiohttp import web

from services.gateway.http.bodies import encoded
from services.gateway.http.keys import IDENTITY, SOURCE
from services.gateway.http.messages import MESSAGES
from services.gateway.http.queries import text
from services.gateway.http.routes import REVISION, Answer, Json, Parameter, Route, plain_errors, sparse
from services.gateway.ids import named
from services.gateway.pages import page_of_messages, session_named
from shared.contracts.base import Contract
from shared.contracts.errors import RequestFailed
from shared.contracts.reads import (
    MessagesAnswer,
    MessagesPage,
    SessionList,
    SessionRow,
    TaskList,
    TaskRow,
    WorkspaceList,
    WorkspaceRow,
)

NEWEST_MESSAGES = 20
"""Messages that a task's page begins with: those a client shows before it asks for more."""


async def list_workspaces(request: web.Request) -> web.Response:
    """The workspaces that the asker may see."""
    answer = await request.app[SOURCE].list(WorkspaceList(identity=request[IDENTITY]))
    return _listed("workspaces", map(_shown, answer.workspaces))


async def list_tasks(request: web.Request) -> web.Response:
    """Tasks, newest first; of one workspace with `workspace_id`."""
    wanted = TaskList(identity=request[IDENTITY], workspace_id=text(request, "workspace_id"))
    return _listed("tasks", map(_shown, (await request.app[SOURCE].list(wanted)).tasks))


async def list_sessions(request: web.Request) -> web.Response:
    """Sessions, newest first; of one task with `task_id`."""
    wanted = SessionList(identity=request[IDENTITY], task_id=text(request, "task_id"))
    return _listed("sessions", map(_session, (await request.app[SOURCE].list(wanted)).sessions))


async def show_task(request: web.Request) -> web.Response:
    """A task, its sessions, and the newest messages of one of them.

    The parts are read one after the other: `revision` is that of the messages, from which on a client follows them.
    """
    identity, source = request[IDENTITY], request.app[SOURCE]
    task_id = named(request.match_info["task_id"], "task not found")
    tasks = (await source.list(TaskList(identity=identity, task_id=task_id))).tasks
    if not tasks:
        raise RequestFailed("not_found", "task not found")
    sessions = (await source.list(SessionList(identity=identity, task_id=task_id))).sessions
    given = text(request, "session_id")
    shown = None
    for session_id in (session_named(given),) if given else tuple(session.id for session in sessions):
        try:
            shown = await _newest(request, session_id, task_id)
        except RequestFailed as failed:
            if given or failed.failure.code != "not_found":
                raise
            continue  # deleted since the list was read: the next one is the newest now
        break
    body = {
        "task": _shown(tasks[0]),
        "sessions": [_session(session) for session in sessions],
        "active_session_id": shown.session_id if shown else None,
        "messages": page_of_messages(shown) if shown else None,
    }
    return encoded(body)


async def _newest(request: web.Request, session_id: str, task_id: str) -> MessagesAnswer:
    page = MessagesPage(identity=request[IDENTITY], session_id=session_id, sort="desc", limit=NEWEST_MESSAGES)
    answer = await request.app[SOURCE].messages(page)
    if answer.task_id != task_id:
        raise RequestFailed("not_found", "task session not found")
    return answer


def _shown(row: Contract) -> Json:
    return row.model_dump(mode="json", exclude_none=True)


def _session(row: SessionRow) -> Json:
    return {**_shown(row), "revision": str(row.revision)}


def _listed(name: str, rows: Iterable[Json]) -> web.Response:
    body = list(rows)
    return web.json_response({name: body, "total": len(body)}, headers={"Cache-Control": "no-store"})


_SESSION: Json = sparse(SessionRow)
_SESSION["properties"]["revision"] = REVISION


def _list_of(name: str, row: str, schema: Json) -> Json:
    return {
        "type": "object",
        "required": [name, "total"],
        "properties": {
            name: {"type": "array", "items": {"$ref": f"#/$defs/{row}"}},
            "total": {"type": "integer", "minimum": 0},
        },
        "$defs": {row: schema},
    }


_TASK: Json = {
    "type": "object",
    "required": ["task", "sessions", "active_session_id", "messages"],
    "properties": {
        "task": {"$ref": "#/$defs/TaskRow"},
        "sessions": {"type": "array", "items": {"$ref": "#/$defs/SessionRow"}},
        "active_session_id": {"type": ["string", "null"], "description": "The session of the messages."},
        "messages": {"anyOf": [{"$ref": "#/$defs/NewestMessages"}, {"type": "null"}]},
    },
    "$defs": {
        "TaskRow": sparse(TaskRow),
        "SessionRow": _SESSION,
        "NewestMessages": {name: value for name, value in MESSAGES.items() if name != "$defs"},
        **MESSAGES["$defs"],
    },
}

ROUTES = (
    Route(
        "GET",
        "/api/v1/workspaces",
        list_workspaces,
        "The workspaces that the caller may see",
        "conversations",
        (Answer(200, "Workspaces by name.", _list_of("workspaces", "WorkspaceRow", sparse(WorkspaceRow))),),
    ),
    Route(
        "GET",
        "/api/v1/tasks",
        list_tasks,
        "Tasks, newest first",
        "conversations",
        (Answer(200, "At most 500 tasks.", _list_of("tasks", "TaskRow", sparse(TaskRow))),),
        parameters=(Parameter("workspace_id", "Only tasks of this workspace."),),
    ),
    Route(
        "GET",
        "/api/v1/tasks/{task_id}",
        show_task,
        "A task with its sessions and the newest messages of one",
        "conversations",
        (
            Answer(200, f"Sessions newest first, and the newest {NEWEST_MESSAGES} messages, newest first.", _TASK),
            *plain_errors(404),
        ),
        parameters=(Parameter("session_id", "The session whose messages are wanted; the newest one if absent."),),
    ),
    Route(
        "GET",
        "/api/v1/task-sessions",
        list_sessions,
        "Sessions, newest first",
        "conversations",
        (Answer(200, "At most 500 sessions.", _list_of("sessions", "SessionRow", _SESSION)),),
        parameters=(Parameter("task_id", "Only sessions of this task."),),
    ),
)
