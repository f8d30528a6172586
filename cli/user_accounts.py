"""`kandev-conversation user add`, `list`, `disable`, `enable`, `promote`, `demote` and `password`."""

import sys

import asyncpg
import click
import orjson

from cli.errors import CommandFailed
from cli.tables import table
from cli.user_database import on_accounts
from services.gateway.identity.accounts import Account, Accounts, Changes
from services.gateway.identity.passwords import MOST_BYTES, Passwords
from shared.times import format_microseconds

_PASSWORD = click.option(
    "--password-stdin", is_flag=True, help="Read the password from standard input: its first line."
)


@click.command()
@click.argument("name")
@click.option("--admin", is_flag=True, help="May manage accounts and plugins.")
@click.option("--display-name", default="", help="The name that people see.")
@_PASSWORD
def add(name: str, admin: bool, display_name: str, password_stdin: bool) -> None:
    """Add an account. Its password is asked for twice; it never stands on the command line."""
    password = _password(from_stdin=password_stdin)

    async def work(pool: asyncpg.Pool) -> tuple[Account, bool]:
        accounts, hashed = Accounts(pool), await Passwords().hashed(password)
        account = await accounts.add(name, hashed, display_name=display_name, administrator=admin)
        return account, await accounts.administrated()

    account, administrated = on_accounts(work)
    click.echo(f"{account.username} was added{' as an administrator' if admin else ''}.", err=True)
    if not administrated:
        click.echo(
            "There is no administrator yet: `kandev-conversation user promote NAME`, or `user add NAME --admin`.",
            err=True,
        )


@click.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def list_(as_json: bool) -> None:
    """List every account, by name."""
    accounts = on_accounts(lambda pool: Accounts(pool).all())
    if as_json:
        users = [
            {
                "id": account.id,
                "username": account.username,
                "display_name": account.display_name,
                "administrator": account.administrator,
                "disabled": account.disabled,
                "created_at": format_microseconds(account.created_at),
            }
            for account in accounts
        ]
        click.echo(orjson.dumps({"users": users, "total": len(users)}, option=orjson.OPT_INDENT_2))
        return
    rows = [
        (
            account.username,
            account.display_name,
            "administrator" if account.administrator else "user",
            "disabled" if account.disabled else "active",
            account.id,
        )
        for account in accounts
    ]
    for line in table(("NAME", "DISPLAY NAME", "ROLE", "STATE", "ID"), rows):
        click.echo(line)
    if not rows:
        click.echo("No account yet. `kandev-conversation user add NAME --admin` makes the first.", err=True)


@click.command()
@click.argument("name")
def disable(name: str) -> None:
    """Keep an account from being used: its sessions end, and its tokens do nothing until it is enabled again."""
    _change(name, Changes(disabled=True))
    click.echo(f"{name} is disabled; running gateways end what it opened within five seconds.", err=True)


@click.command()
@click.argument("name")
def enable(name: str) -> None:
    """Let a disabled account be used again."""
    _change(name, Changes(disabled=False))
    click.echo(f"{name} is enabled.", err=True)


@click.command()
@click.argument("name")
def promote(name: str) -> None:
    """Make an account an administrator: one who may manage accounts and plugins."""
    _change(name, Changes(administrator=True))
    click.echo(f"{name} is an administrator; running gateways know it within five seconds.", err=True)


@click.command()
@click.argument("name")
def demote(name: str) -> None:
    """Make an administrator an ordinary user. The last active administrator stays one."""
    _change(name, Changes(administrator=False))
    click.echo(f"{name} is no administrator; running gateways know it within five seconds.", err=True)


@click.command()
@click.argument("name")
@_PASSWORD
def password(name: str, password_stdin: bool) -> None:
    """Give an account another password; its sessions end, its tokens stay."""
    given = _password(from_stdin=password_stdin)

    async def work(pool: asyncpg.Pool) -> None:
        accounts = Accounts(pool)
        user_id = await accounts.id_of(name)
        await accounts.change(user_id, Changes(password_hash=await Passwords().hashed(given)))

    on_accounts(work)
    click.echo(f"{name} has another password; running gateways end its sessions within five seconds.", err=True)


def _change(name: str, changes: Changes) -> None:
    async def work(pool: asyncpg.Pool) -> None:
        accounts = Accounts(pool)
        await accounts.change(await accounts.id_of(name), changes)

    on_accounts(work)


def _password(*, from_stdin: bool) -> str:
    """The password, from the terminal or as the first line of standard input. Raises `CommandFailed`."""
    if not from_stdin:
        if not sys.stdin.isatty():
            raise CommandFailed("There is no terminal to ask for the password: use --password-stdin.")
        typed: str = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        return typed
    line = sys.stdin.buffer.readline(MOST_BYTES + 3).rstrip(b"\r\n")
    return line.decode(errors="surrogateescape")
