"""`kandev-conversation migrate`: brings the database to this version's schema."""

import asyncio

import asyncpg
import click
import orjson
from pydantic import SecretStr

from cli.database import CONNECT_ERRORS, database_url, place, unreachable
from cli.errors import CommandFailed
from services.revision.schema.migrate import MigrationReport
from services.revision.schema.migrate import migrate as apply_migrations
from services.revision.schema.numbered import Migration, SchemaError
from shared.database import connect
from shared.reasons import reason


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def migrate(as_json: bool) -> None:
    """Bring the database to this version's schema, one numbered step at a time.

    Safe to repeat, safe while others run it, and safe under writers. The database is that of KANDEV_DATABASE_URL
    (or DATABASE_URL); when neither is set, that of the embedded stack running here.
    """
    url = database_url()
    report = asyncio.run(_migrate(url, quiet=as_json))
    if as_json:
        click.echo(orjson.dumps({"applied": list(report.applied), "version": report.version}))
    elif report.applied:
        click.echo(f"The database at {place(url)} is at version {report.version} now.")
    else:
        click.echo(f"The database at {place(url)} is at version {report.version}: nothing to do.")


async def _migrate(url: str, *, quiet: bool) -> MigrationReport:
    def progress(migration: Migration) -> None:
        if not quiet:
            click.echo(f"{migration.version:04d} {migration.name}")

    try:
        connection = await connect(SecretStr(url), "migrate")
    except CONNECT_ERRORS as error:
        raise unreachable(url, error) from None
    try:
        return await apply_migrations(connection, progress=progress)
    except SchemaError as error:
        raise CommandFailed(f"The database was not migrated: {error}.") from None
    except asyncpg.PostgresError as error:
        raise CommandFailed(
            f"The database was not migrated ({reason(error)}). The role needs the "
            "right to create schemas and tables there; what was done stays done, and the next run goes on from there."
        ) from None
    except (OSError, asyncpg.InterfaceError) as error:
        raise unreachable(url, error) from None
    finally:
        connection.terminate()
