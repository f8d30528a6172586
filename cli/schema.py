"""How the commands on the schema reach their database, and what they say when it does not let them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import asyncpg
import click
from pydantic import SecretStr

from cli.database import CONNECT_ERRORS, database_url, place, unreachable
from cli.errors import CommandFailed
from services.revision.schema.numbered import SchemaError
from shared.database import connect
from shared.reasons import reason

T = TypeVar("T")


def on_schema(role: str, outcome: str, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
    """Does `work` on a connection of its own. `role` names it in pg_stat_activity, `outcome` what did not happen where
    this ends as `CommandFailed`: "The database was not migrated".
    """
    return asyncio.run(_connected(database_url(), role, outcome, work))


def database_place() -> str:
    """The database as people are told of it."""
    return place(database_url())


def listed(steps: Iterable[str]) -> None:
    """Prints steps, one a line."""
    for step in steps:
        click.echo(f"  {step}")


async def _connected(url: str, role: str, outcome: str, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
    try:
        connection = await connect(SecretStr(url), role)
    except CONNECT_ERRORS as error:
        raise unreachable(url, error) from None
    try:
        return await work(connection)
    except SchemaError as error:
        raise CommandFailed(f"{outcome}: {error}.") from None
    except asyncpg.PostgresError as error:
        raise CommandFailed(
            f"{outcome} ({reason(error)}). The role needs the right to create schemas and tables there, and has to own "
            "the tables that are there; what was done stays done, and the next run goes on from there."
        ) from None
    except (OSError, asyncpg.InterfaceError) as error:
        raise unreachable(url, error) from None
    finally:
        connection.terminate()
