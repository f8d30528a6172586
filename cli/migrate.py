"""`kandev-conversation migrate`: brings the database to this version's schema."""

import asyncpg
import click
import orjson

from cli.counting import counted
from cli.schema import database_place, listed, on_schema
from services.revision.cutover.tables import Journal, journal
from services.revision.schema.migrate import MigrationReport
from services.revision.schema.migrate import migrate as apply_migrations
from services.revision.schema.numbered import Migration
from services.revision.schema.preview import Preview, preview

NOT_MIGRATED = "The database was not migrated"


@click.command()
@click.option("--plan", is_flag=True, help="Say what would be done, and change nothing.")
@click.option(
    "--require-task",
    is_flag=True,
    help="Where tables that are there let a task_id be NULL, forbid it. Only while the database is attached, and only "
    "if every row has one; `detach` allows it again.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def migrate(plan: bool, require_task: bool, as_json: bool) -> None:
    """Bring the database to this version's schema, one numbered step at a time.

    Safe to repeat, safe while others run it, and safe under writers: none waits for longer than a second. The database
    is that of KANDEV_DATABASE_URL (or DATABASE_URL); when neither is set, that of the embedded stack running here.

    A database that holds kandev's own tables is attached: what is there stays, what is missing is added, and kandev's
    triggers that count revisions are replaced. `kandev-conversation detach` takes all of that back.

    \b
    Examples:
      kandev-conversation migrate --plan     what it would do
      kandev-conversation migrate
    """
    if plan:
        _show(*on_schema("migrate", NOT_MIGRATED, lambda c: _looked(c, require_task)), as_json=as_json)
        return
    report = on_schema("migrate", NOT_MIGRATED, lambda c: _migrated(c, require_task, quiet=as_json))
    if as_json:
        replaced = [f"{trigger.relation}.{trigger.name}" for trigger in report.replaced]
        click.echo(orjson.dumps({"applied": list(report.applied), "version": report.version, "replaced": replaced}))
    elif report.applied:
        click.echo(f"The database at {database_place()} is at version {report.version} now.")
    else:
        click.echo(f"The database at {database_place()} is at version {report.version}: nothing to do.")


async def migrated(connection: asyncpg.Connection, *, require_task: bool = False) -> MigrationReport:
    """Migrates, and prints each step as it begins."""

    def progress(migration: Migration) -> None:
        click.echo(f"{migration.version:04d} {migration.name}")

    report = await apply_migrations(connection, progress=progress, require_task=require_task)
    for trigger in report.replaced:
        click.echo(f"replaced the trigger {trigger.name} of {trigger.relation}")
    return report


async def _migrated(connection: asyncpg.Connection, require_task: bool, *, quiet: bool) -> MigrationReport:
    if quiet:
        return await apply_migrations(connection, require_task=require_task)
    return await migrated(connection, require_task=require_task)


async def _looked(connection: asyncpg.Connection, require_task: bool) -> tuple[Preview, Journal]:
    return await preview(connection, require_task=require_task), await journal(connection)


def _show(found: Preview, kept_journal: Journal, *, as_json: bool) -> None:
    files = [f"{migration.version:04d} {migration.name}" for migration in found.pending]
    legacy = [table.name for table in kept_journal.tables]
    if as_json:
        plan = {"version": found.version, "files": files, "kept": found.kept, "changes": found.changes}
        click.echo(orjson.dumps({**plan, "legacy": legacy}))
        return
    click.echo(f"The database at {database_place()} is at version {found.version}.")
    if found.kept:
        click.echo("These tables are there, and stay with their rows:")
        listed(found.kept)
    if files:
        click.echo(f"{counted(len(files), 'file')} would be applied:")
        listed(files)
    if found.changes:
        click.echo("In the schema public, that would:")
        listed(found.changes)
    if legacy:
        click.echo("kandev's journal stays until `kandev-conversation cutover` removes it:")
        listed(legacy)
    click.echo("Nothing was changed." if files or found.changes else "There is nothing to do.")
