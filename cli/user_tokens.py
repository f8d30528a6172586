"""`kandev-conversation user token`, `tokens` and `revoke`."""

from datetime import UTC, datetime

import asyncpg
import click
import orjson

from cli.tables import table
from cli.user_database import on_accounts
from services.gateway.identity.accounts import Accounts
from services.gateway.identity.tokens import LONGEST_DAYS, AccessToken, AccessTokens
from shared.times import format_microseconds


@click.command()
@click.argument("name")
@click.option("--name", "label", default="", help="What the token is for.")
@click.option("--expires", "days", type=click.IntRange(1, LONGEST_DAYS), help="Days until it ends. [default: never]")
def token(name: str, label: str, days: int | None) -> None:
    """Make an access token of an account and print it: this once, nobody can read it again.

    \b
    Example:
      export KANDEV_TOKEN="$(kandev-conversation user token ann --name laptop --expires 90)"
    """

    async def work(pool: asyncpg.Pool) -> tuple[AccessToken, str]:
        return await AccessTokens(pool).add(await Accounts(pool).id_of(name), label, days)

    made, text = on_accounts(work)
    click.echo(text)
    click.echo(f"Keep it: it is shown this once. `kandev-conversation user revoke {made.id}` ends it.", err=True)


@click.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def tokens(name: str, as_json: bool) -> None:
    """List an account's access tokens, oldest first. Secrets are not stored and cannot be shown.

    LAST USED is at most a minute and a few seconds behind: it is not written at every use.
    """

    async def work(pool: asyncpg.Pool) -> tuple[AccessToken, ...]:
        return await AccessTokens(pool).of(await Accounts(pool).id_of(name))

    found = on_accounts(work)
    if as_json:
        listed = [
            {
                "id": each.id,
                "name": each.name,
                "created_at": format_microseconds(each.created_at),
                "expires_at": _when(each.expires_at) or None,
                "last_used_at": _when(each.last_used_at) or None,
            }
            for each in found
        ]
        click.echo(orjson.dumps({"tokens": listed, "total": len(listed)}, option=orjson.OPT_INDENT_2))
        return
    now = int(datetime.now(UTC).timestamp() * 1_000_000)
    rows = [
        (
            each.id,
            each.name,
            _shown(each.created_at),
            _end(each.expires_at, now),
            "never" if each.last_used_at is None else _shown(each.last_used_at),
        )
        for each in found
    ]
    for line in table(("ID", "NAME", "MADE", "ENDS", "LAST USED"), rows):
        click.echo(line)
    if not rows:
        click.echo(f"{name} has no token. `kandev-conversation user token {name}` makes one.", err=True)


@click.command()
@click.argument("token_id", metavar="TOKENID")
def revoke(token_id: str) -> None:
    """End an access token. TOKENID: the eight digits behind kandev_pat_, as `user tokens` lists them."""
    on_accounts(lambda pool: AccessTokens(pool).revoke(token_id))
    click.echo(f"{token_id} has ended; running gateways close what it opened within five seconds.", err=True)


def _when(moment: int | None) -> str:
    return "" if moment is None else format_microseconds(moment)


def _end(moment: int | None, now: int) -> str:
    if moment is None:
        return "never"
    return f"{_shown(moment)} (ended)" if moment <= now else _shown(moment)


def _shown(moment: int) -> str:
    return f"{datetime.fromtimestamp(moment // 1_000_000, UTC):%Y-%m-%d %H:%M:%S} UTC"
