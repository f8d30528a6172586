"""The workspace that conversations are written to."""

from dataclasses import dataclass

from cli.errors import CommandFailed
from cli.transcripts.plan import stable_id
from cli.writing import CONFLICT
from client.writers import WriteRefused, Writers


@dataclass(frozen=True, slots=True)
class Workspace:
    """Where conversations go. `name` None: it is there, by whatever name."""

    id: str
    name: str | None


async def chosen_workspace(writers: Writers, named: str | None, default: str) -> Workspace:
    """The workspace with the id `named` if the asker sees one, else their own of that name, or of the default one.

    Nothing is written. Raises `WriteError`.
    """
    if named is not None and await writers.sees_workspace(named):
        return Workspace(named, None)
    name = default if named is None else named
    return Workspace(own_workspace_id(await writers.user(), name), name)


def own_workspace_id(user: str | None, name: str) -> str:
    """The same for the same user and name; `user` None: the local user."""
    return stable_id("workspace", name) if user is None else stable_id("workspace", user, name)


async def make_workspace(writers: Writers, workspace: Workspace) -> None:
    """Makes it unless it is there, with another name or owner perhaps. Raises `WriteError` and `CommandFailed`."""
    if workspace.name is None:
        return
    try:
        await writers.create_workspace(workspace.id, workspace.name)
    except WriteRefused as refused:
        if refused.status != CONFLICT:
            raise
        if not await writers.sees_workspace(workspace.id):
            raise CommandFailed(
                f"Your workspace {workspace.name!r} belongs to somebody else now: choose another with --workspace."
            ) from None
