"""Which database a command means, and what it says when that one cannot be used."""

from urllib.parse import urlsplit

import asyncpg

from cli.configuration import load_settings, variables_given
from cli.errors import CommandFailed
from deploy.local.running import RunningStack, running_stack
from shared.reasons import reason
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
    except ValueError:
        return "an address that is no URL"
    return f"{parts.netloc.rpartition('@')[2] or 'the default host'}{parts.path}"


def unreachable(url: str, error: Exception) -> CommandFailed:
    """The sentence for a database that did not let us in."""
    return CommandFailed(
        f"The database at {place(url)} cannot be reached ({reason(error)}). Start it (`kandev-conversation up` brings "
        "one), or set KANDEV_DATABASE_URL to postgresql://user:password@host:port/database."
    )


CONNECT_ERRORS = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError)
"""What a connection attempt can raise; ValueError for an address that is none."""
