"""`kandev-conversation keys`: the keys that sign what plugins show."""

from collections.abc import Mapping
from types import MappingProxyType

import asyncpg
import click

from cli.lazy import Entry, LazyGroup
from cli.user_database import on_accounts
from services.gateway.plugins.keyring import LEAD_SECONDS, RETIRED_SECONDS, Keyring

COMMANDS: Mapping[str, Entry] = MappingProxyType(
    {"rotate": Entry("cli.keys", "rotate", "Make a new key; the present ones go when they are not needed any more.")}
)


@click.command(cls=LazyGroup, entries=COMMANDS)
def keys() -> None:
    """The keys that sign bindings and cursors of plugins. Gateways change them weekly by themselves."""


@click.command()
def rotate() -> None:
    """Make a new key. No plugin notices: what the present keys signed stays good until it expires.

    \b
    Example:
      kandev-conversation keys rotate
    """

    async def work(pool: asyncpg.Pool) -> None:
        await Keyring(pool).rotate()

    on_accounts(work)
    click.echo(
        f"A new key was made. It signs in {LEAD_SECONDS} seconds; the earlier ones are gone in "
        f"{RETIRED_SECONDS // 60} minutes.",
        err=True,
    )
