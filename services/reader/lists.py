"""First-party lists: what the asker may see of workspaces, tasks and sessions.

In a database that was there before this schema what people see of them may be NULL, and is empty then: one such row
must not keep the others from a list.
"""

# ruff: noqa: S608 - statements are put together from the literals of this module; every value is a parameter

import asyncpg

from services.reader.rows import Columns
from services.reader.snapshot import no_epoch
from shared.contracts.reads import (
    ListAnswer,
    MemberList,
    MemberRow,
    SessionList,
    SessionRow,
    TaskList,
    TaskRow,
    WorkspaceList,
    WorkspaceRow,
)
from shared.times import EARLIEST_TEXT, format_microseconds

MOST_ROWS = 500
"""Rows of one list: more than a person looks through, and small enough to be one reply."""

# $1 user, $2 unscoped. Access is decided once per workspace, not once per row.
_LIST = """
SELECT e.epoch, NOT pg_is_in_recovery() AS on_primary, found.*
  FROM conversation.epoch e LEFT JOIN LATERAL ({rows}) found ON true
"""
_SEEN = "SELECT w.id FROM public.workspaces w WHERE conversation.workspace_visible(w.id, $1::text, $2::boolean)"

_WORKSPACES = f"""
SELECT w.id, w.name, w.owner_id FROM public.workspaces w
 WHERE w.id IN ({_SEEN}) ORDER BY w.name, w.id LIMIT {MOST_ROWS}
"""
_TASKS = f"""
SELECT t.id, t.workspace_id, t.title, t.created_at, t.updated_at FROM public.tasks t
 WHERE t.workspace_id IN ({_SEEN}) {{only}} ORDER BY t.created_at DESC, t.id DESC LIMIT {MOST_ROWS}
"""
_SESSIONS = f"""
SELECT s.id, s.task_id, s.state, s.is_passthrough, s.started_at, s.completed_at, s.updated_at,
       coalesce(r.revision, 0) AS revision
  FROM public.task_sessions s
  JOIN public.tasks t ON t.id = s.task_id
  LEFT JOIN public.conversation_session_revisions r ON r.session_id = s.id
 WHERE t.workspace_id IN ({_SEEN}) {{only}} ORDER BY s.started_at DESC NULLS LAST, s.id DESC LIMIT {MOST_ROWS}
"""
# By primary keys.
_MEMBERS = f"""
SELECT w.id, w.name, w.owner_id, m.user_id, m.role
  FROM public.workspaces w LEFT JOIN public.workspace_members m ON m.workspace_id = w.id
 WHERE w.id = $3::text AND w.id IN ({_SEEN}) ORDER BY m.user_id LIMIT {MOST_ROWS}
"""


async def list_workspaces(pool: asyncpg.Pool, read: WorkspaceList) -> ListAnswer:
    """Workspaces by name."""
    head, rows = await _fetch(pool, _WORKSPACES, read.identity.user, read.identity.unscoped)
    workspaces = tuple(map(_workspace, rows))
    return ListAnswer(epoch=head["epoch"], primary=head["on_primary"], workspaces=workspaces)


async def list_tasks(pool: asyncpg.Pool, read: TaskList) -> ListAnswer:
    """Tasks, newest first."""
    only, parameters = _only({"t.workspace_id": read.workspace_id, "t.id": read.task_id})
    statement = _TASKS.format(only=only)
    head, rows = await _fetch(pool, statement, read.identity.user, read.identity.unscoped, *parameters)
    return ListAnswer(epoch=head["epoch"], primary=head["on_primary"], tasks=tuple(map(_task, rows)))


async def list_sessions(pool: asyncpg.Pool, read: SessionList) -> ListAnswer:
    """Sessions with their revisions, newest first."""
    only, parameters = _only({"s.task_id": read.task_id, "s.id": read.session_id})
    statement = _SESSIONS.format(only=only)
    head, rows = await _fetch(pool, statement, read.identity.user, read.identity.unscoped, *parameters)
    return ListAnswer(epoch=head["epoch"], primary=head["on_primary"], sessions=tuple(map(_session, rows)))


async def list_members(pool: asyncpg.Pool, read: MemberList) -> ListAnswer:
    """Members by id, with their workspace."""
    head, rows = await _fetch(pool, _MEMBERS, read.identity.user, read.identity.unscoped, read.workspace_id)
    workspaces = tuple(map(_workspace, rows[:1]))
    members = tuple(
        MemberRow(user_id=row["user_id"], role=row["role"] or "") for row in rows if row["user_id"] is not None
    )
    return ListAnswer(epoch=head["epoch"], primary=head["on_primary"], workspaces=workspaces, members=members)


def _only(wanted: dict[str, str | None]) -> tuple[str, list[str]]:
    """Conditions on the columns that are named, from parameter $3 up: as text, so that each finds its index."""
    given = [(column, value) for column, value in wanted.items() if value is not None]
    conditions = "".join(f" AND {column} = ${place}::text" for place, (column, _) in enumerate(given, start=3))
    return conditions, [value for _, value in given]


async def _fetch(pool: asyncpg.Pool, rows: str, *parameters: object) -> tuple[Columns, list[Columns]]:
    found = await pool.fetch(_LIST.format(rows=rows), *parameters)
    if not found:
        raise no_epoch()
    return found[0], [row for row in found if row["id"] is not None]


def _workspace(row: Columns) -> WorkspaceRow:
    return WorkspaceRow(id=row["id"], name=row["name"] or "", owner_id=row["owner_id"] or "")


def _task(row: Columns) -> TaskRow:
    return TaskRow(
        id=row["id"],
        workspace_id=row["workspace_id"],
        title=row["title"] or "",
        created_at=_first_of(row["created_at"], row["updated_at"]),
        updated_at=_first_of(row["updated_at"], row["created_at"]),
    )


def _session(row: Columns) -> SessionRow:
    return SessionRow(
        id=row["id"],
        task_id=row["task_id"],
        state=row["state"] or "",
        is_passthrough=bool(row["is_passthrough"]),
        started_at=None if row["started_at"] is None else format_microseconds(row["started_at"]),
        completed_at=None if row["completed_at"] is None else format_microseconds(row["completed_at"]),
        updated_at=_first_of(row["updated_at"], row["completed_at"], row["started_at"]),
        revision=row["revision"],
    )


def _first_of(*moments: int | None) -> str:
    """The first time that is there; the earliest of all where none is."""
    return next((format_microseconds(moment) for moment in moments if moment is not None), EARLIEST_TEXT)
