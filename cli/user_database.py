"""How the commands on accounts reach their tables, and what they say when those cannot be used."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import asyncpg
from pydantic import SecretStr

from cli.database import CONNECT_ERRORS, database_url, place, unreachable
from cli.errors import CommandFailed
from shared.contracts.errors import RequestFailed
from shared.database import open_pool
from shared.reasons import reason

ResultT = TypeVar("ResultT")


def on_accounts(work: Callable[[asyncpg.Pool], Awaitable[ResultT]]) -> ResultT:
    """What `work` finds or does in the database that this command means. Raises `CommandFailed`."""
    return asyncio.run(_done(database_url(), work))


async def _done(url: str, work: Callable[[asyncpg.Pool], Awaitable[ResultT]]) -> ResultT:
    try:
        pool = await open_pool(SecretStr(url), 1, "user")
    except CONNECT_ERRORS as error:
        raise unreachable(url, error) from None
    try:
        return await work(pool)
    except RequestFailed as failed:
        raise CommandFailed(f"{str(failed)[:1].upper()}{str(failed)[1:]}.") from None
    except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
        raise CommandFailed(
            f"The database at {place(url)} has no accounts yet: run `kandev-conversation migrate`."
        ) from None
    except asyncpg.PostgresError as error:
        raise CommandFailed(f"The database at {place(url)} refused this ({reason(error)}).") from None
    except (OSError, asyncpg.InterfaceError) as error:
        raise unreachable(url, error) from None
    finally:
        pool.terminate()
