"""`kandev-conversation workspace list`, `owner`, `share` and `unshare`."""

from dataclasses import asdict

import asyncpg
import click
import orjson

from cli.errors import CommandFailed
from cli.tables import table
from cli.user_database import on_accounts
from cli.workspace_rows import EVERYONE, ListedWorkspace, WorkspaceRows
from services.gateway.identity.accounts import Accounts, no_such_user

_WORKSPACE = click.argument("named", metavar="WORKSPACE")


@click.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def list_(as_json: bool) -> None:
    """List every workspace, by name. OWNER empty: everyone sees it."""

    async def work(pool: asyncpg.Pool) -> tuple[ListedWorkspace, ...]:
        return await WorkspaceRows(pool).all()

    found = on_accounts(work)
    if as_json:
        listed = {"workspaces": list(map(asdict, found)), "total": len(found)}
        click.echo(orjson.dumps(listed, option=orjson.OPT_INDENT_2))
        return
    rows = [
        (each.name, each.owner or each.owner_id, ", ".join(each.members), str(each.sessions), each.id) for each in found
    ]
    for line in table(("NAME", "OWNER", "MEMBERS", "SESSIONS", "ID"), rows):
        click.echo(line)
    if not rows:
        click.echo("No workspace yet. `kandev-conversation import` and `replay` make some.", err=True)


@click.command()
@_WORKSPACE
@click.argument("user", required=False)
@click.option("--everyone", is_flag=True, help="Nobody's, hence everyone's to see.")
def owner(named: str, user: str | None, everyone: bool) -> None:
    """Give a workspace to a user, who then decides who sees it; or, with --everyone, to nobody."""
    if (user is None) is not everyone:
        raise CommandFailed("Name the user who is to own it, or give --everyone.")

    async def work(pool: asyncpg.Pool) -> str:
        rows = WorkspaceRows(pool)
        workspace_id = await rows.id_of(named)
        await rows.set_owner(workspace_id, EVERYONE if user is None else await _account(pool, user))
        return workspace_id

    workspace_id = on_accounts(work)
    click.echo(f"{named} ({workspace_id}) now belongs to {user or 'everyone'}.", err=True)


@click.command()
@_WORKSPACE
@click.argument("user")
def share(named: str, user: str) -> None:
    """Make a user a member: they see and change what is in the workspace."""

    async def work(pool: asyncpg.Pool) -> None:
        rows = WorkspaceRows(pool)
        await rows.add_member(await rows.id_of(named), await _account(pool, user))

    on_accounts(work)
    click.echo(f"{user} is a member of {named}.", err=True)


@click.command()
@_WORKSPACE
@click.argument("user")
def unshare(named: str, user: str) -> None:
    """End a user's membership; what they follow there ends within five seconds."""

    async def work(pool: asyncpg.Pool) -> None:
        rows = WorkspaceRows(pool)
        # A membership may be of an account that is not there any more.
        user_id = await Accounts(pool).found(user) or user
        await rows.remove_member(await rows.id_of(named), user_id)

    on_accounts(work)
    click.echo(f"{user} is no member of {named}.", err=True)


async def _account(pool: asyncpg.Pool, named: str) -> str:
    user_id = await Accounts(pool).found(named)
    if user_id is None:
        raise no_such_user()
    return user_id
