"""Which database a command means, and what it says when that one cannot be used."""

from urllib.parse import urlsplit

import asyncpg

from cli.configuration import load_settings, variables_given
from cli.errors import CommandFailed
from deploy.local.running import RunningStack, running_stack
from shared.settings import Settings


def stack_here(settings: Settings) -> RunningStack | None:
    """The embedded stack that runs on this data folder; None when none does."""
    return running_stack(settings.data_dir)


def database_url() -> str:
    """The address that the environment names, else the running embedded stack's, else the default."""
    settings = load_settings()
    stack = None if variables_given("database_url") else stack_here(settings)
    return settings.database_url.get_secret_value() if stack is None else stack.database_url


def place(url: str) -> str:
    """Host, port and database of an address, without user and password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "an address that is no URL"
    return f"{parts.hostname or 'the default host'}{f':{port}' if port else ''}{parts.path}"


def unreachable(url: str, error: Exception) -> CommandFailed:
    """The sentence for a database that did not let us in. Kinds only: texts of drivers may quote the address."""
    reason = type(error).__name__
    if isinstance(error, asyncpg.PostgresError) and error.sqlstate:
        reason = f"{reason}, SQLSTATE {error.sqlstate}"
    return CommandFailed(
        f"The database at {place(url)} cannot be reached ({reason}). Start it (`kandev-conversation up` brings one), "
        "or set KANDEV_DATABASE_URL to postgresql://user:password@host:port/database."
    )


CONNECT_ERRORS = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError)
"""What a connection attempt can raise; ValueError for an address that is none."""
