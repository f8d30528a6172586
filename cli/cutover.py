"""`kandev-conversation cutover`: gives up the journal that kandev kept of conversations before."""

from dataclasses import dataclass
from pathlib import Path

import asyncpg
import click

from cli.counting import counted
from cli.migrate import migrated
from cli.schema import database_place, listed, on_schema
from services.revision.cutover.files import Fate, LegacyFile, files_in, remove_files
from services.revision.cutover.tables import Journal, drop_journal, journal, require_followable

NOT_DONE = "The journal was not given up"

LEFT = 1
"""Exit code when a file was not removed."""


@dataclass(frozen=True)
class _Found:
    journal: Journal
    files: tuple[LegacyFile, ...]

    @property
    def steps(self) -> list[str]:
        """What would be removed, in order."""
        return [
            *(
                f"drop the trigger {trigger.name} of {trigger.relation}, which writes to the journal"
                for trigger in self.journal.triggers
            ),
            *(f"drop the table {table.name} ({_size(table.size)})" for table in self.journal.tables),
            *(f"remove {file.name} ({_size(file.size)})" for file in self.files if file.fate is Fate.REMOVED),
        ]

    @property
    def refused(self) -> list[str]:
        """Files that stay, and why."""
        return [f"{file.name}: {file.reason}" for file in self.files if file.fate is Fate.REFUSED]


@click.command()
@click.option(
    "--host-folder",
    type=click.Path(path_type=Path),
    help="kandev's folder `.host`, where session-events.sqlite is. Without it, files are left alone.",
)
@click.option("--plan", is_flag=True, help="Say what would be removed, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask. For a job that runs at each start.")
def cutover(host_folder: Path | None, plan: bool, yes: bool) -> int:
    """Migrate, and give up the journal of conversations that kandev kept before: five tables, three files.

    What is removed cannot be had back: make a backup. In one transaction the triggers that count revisions are
    installed and the tables dropped, by their names; nothing that depends on them goes along. Conversations, their
    ordinals and every other table stay. Once that is committed, session-events.sqlite and its -wal and -shm are
    removed, each only if it is a regular file.

    Safe to repeat: where there is no journal it does what `migrate` does, and what was interrupted or refused is tried
    again. It ends with 1 when a file was not removed. The database is that of KANDEV_DATABASE_URL (or DATABASE_URL);
    when neither is set, that of the embedded stack running here.

    \b
    Examples:
      kandev-conversation cutover --plan --host-folder ~/.kandev/.host
      kandev-conversation cutover --yes --host-folder ~/.kandev/.host
    """
    there = on_schema("cutover", NOT_DONE, _looked)
    found = _Found(there, () if host_folder is None else files_in(host_folder))
    if host_folder is not None and _is_missing(host_folder):
        click.echo(f"There is no folder {host_folder}, so no file of the journal is looked for.", err=True)
    if plan or (found.steps and not yes):
        _show(found)
    if plan:
        click.echo("Nothing was changed.")
        return 0
    if found.steps and not yes:
        click.confirm("Remove all of this?", abort=True, err=True)
    on_schema("cutover", NOT_DONE, _dropped)
    # Only now: while the tables are there, the files belong to them.
    files = () if host_folder is None else remove_files(host_folder, click.echo)
    if refused := _Found(there, files).refused:
        click.echo("Not removed:", err=True)
        for each in refused:
            click.echo(f"  {each}", err=True)
        return LEFT
    click.echo(f"There is no journal in the database at {database_place()}{_and_files(host_folder)}.")
    return 0


async def _looked(connection: asyncpg.Connection) -> Journal:
    """What is there of the journal; nothing is asked, begun or migrated where it could not be given up."""
    if there := await journal(connection):
        await require_followable(connection)
    return there


async def _dropped(connection: asyncpg.Connection) -> None:
    await migrated(connection)
    await drop_journal(connection, click.echo)


def _show(found: _Found) -> None:
    if found.steps:
        click.echo(f"In the database at {database_place()}, this would migrate and then:")
        listed(found.steps)
    else:
        click.echo(f"There is no journal in the database at {database_place()}.")
    if found.refused:
        click.echo("These would not be removed:")
        listed(found.refused)


def _is_missing(folder: Path) -> bool:
    try:
        folder.lstat()
    except FileNotFoundError:
        return True
    except OSError:
        return False  # Said of its files, with the reason.
    return False


def _and_files(host_folder: Path | None) -> str:
    return "" if host_folder is None else f", and none of its files in {host_folder}"


def _size(size: int) -> str:
    return counted(size, "byte") if size < 1 << 20 else f"{size >> 20:,} MiB"
