"""Whether servers that somebody else runs can be used: asked before anything is started against them."""

import asyncio
from urllib.parse import urlsplit

import asyncpg
import redis.asyncio
from redis.exceptions import RedisError

from deploy.local.errors import StackError
from shared.reasons import reason

REACH_SECONDS = 10.0


async def reach_database(url: str) -> None:
    """Connects once. Raises `StackError` that names the server, never the password."""
    try:
        connection = await asyncpg.connect(url, timeout=REACH_SECONDS)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError) as error:
        raise StackError(
            f"The database at {_place(url)} cannot be reached ({reason(error)}). "
            "Start it, correct DATABASE_URL, or leave DATABASE_URL unset to use the embedded one."
        ) from None
    await connection.close()


async def reach_redis(url: str) -> None:
    """Sends one PING. Raises `StackError` that names the server, never the password."""
    try:
        async with asyncio.timeout(REACH_SECONDS), redis.asyncio.Redis.from_url(url) as client:
            await client.ping()
    except (OSError, TimeoutError, RedisError, ValueError) as error:
        raise StackError(
            f"Redis at {_place(url)} cannot be reached ({reason(error)}). "
            "Start it, correct REDIS_URL, or leave REDIS_URL unset to use the embedded one."
        ) from None


def _place(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "an address that is no URL"
    return f"{parts.hostname or 'an unnamed host'}:{port or 'its default port'}{parts.path}"
