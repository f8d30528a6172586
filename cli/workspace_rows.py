"""Owners and members of workspaces, in the tables of conversations."""

from dataclasses import dataclass

import asyncpg

from shared.contracts.errors import RequestFailed

EVERYONE = ""
"""The owner of a workspace that everyone sees."""

_ALL = """
SELECT w.id, w.name, w.owner_id, coalesce(o.username, '') AS owner,
       ARRAY(SELECT coalesce(u.username, m.user_id)
               FROM public.workspace_members m LEFT JOIN gateway.users u ON u.id = m.user_id
              WHERE m.workspace_id = w.id ORDER BY 1) AS members,
       (SELECT count(*)::int FROM public.tasks t JOIN public.task_sessions s ON s.task_id = t.id
         WHERE t.workspace_id = w.id) AS sessions
  FROM public.workspaces w LEFT JOIN gateway.users o ON o.id = w.owner_id
 ORDER BY w.name, w.id
"""
_NAMED = "SELECT id FROM public.workspaces WHERE id = $1 OR name = $1 ORDER BY id = $1 DESC, id"
_SET_OWNER = """
UPDATE public.workspaces
   SET owner_id = $2, updated_at = greatest(clock_timestamp(), updated_at + interval '1 microsecond')
 WHERE id = $1 AND owner_id <> $2
"""
_ADD_MEMBER = "INSERT INTO public.workspace_members (workspace_id, user_id) VALUES ($1, $2) ON CONFLICT DO NOTHING"
_REMOVE_MEMBER = "DELETE FROM public.workspace_members WHERE workspace_id = $1 AND user_id = $2 RETURNING user_id"


@dataclass(frozen=True, slots=True)
class ListedWorkspace:
    """One workspace. `owner`: a username, empty where no account has `owner_id`. `members`: usernames, or ids where no
    account has them. `sessions`: how many there are in it.
    """

    id: str
    name: str
    owner_id: str
    owner: str
    members: tuple[str, ...]
    sessions: int


class WorkspaceRows:
    """The tables of workspaces and their members. Every method that names one raises RequestFailed for what is not
    there.
    """

    def __init__(self, database: asyncpg.Pool) -> None:
        self._database = database

    async def all(self) -> tuple[ListedWorkspace, ...]:
        """Every workspace, by name."""
        rows = await self._database.fetch(_ALL)
        return tuple(ListedWorkspace(**{**row, "members": tuple(row["members"])}) for row in rows)

    async def id_of(self, named: str) -> str:
        """The id of the workspace that is named by it, or else by its name, which may be that of one only."""
        found = [str(row["id"]) for row in await self._database.fetch(_NAMED, named)]
        if not found:
            raise RequestFailed("not_found", "there is no such workspace")
        if len(found) > 1 and found[0] != named:
            raise RequestFailed(
                "conflict", f"several workspaces have this name: give the id, one of {', '.join(found)}"
            )
        return found[0]

    async def set_owner(self, workspace_id: str, user_id: str) -> None:
        """Gives it to this user, or to everyone."""
        await self._database.execute(_SET_OWNER, workspace_id, user_id)

    async def add_member(self, workspace_id: str, user_id: str) -> None:
        """Makes the user a member; one that is a member stays one."""
        await self._database.execute(_ADD_MEMBER, workspace_id, user_id)

    async def remove_member(self, workspace_id: str, user_id: str) -> None:
        """Ends the membership."""
        if await self._database.fetchval(_REMOVE_MEMBER, workspace_id, user_id) is None:
            raise RequestFailed("not_found", "there is no such member")
