"""Commands of the hot paths as bytes: the library goes through every argument of every command, which costs the tracker
more than decoding.
"""

from collections.abc import Sequence

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from shared.broker.connection import stop_if_cancelled


def packed(*arguments: bytes) -> bytes:
    """One command as Redis reads it."""
    parts = [b"*%d\r\n" % len(arguments)]
    parts += [b"$%d\r\n%b\r\n" % (len(argument), argument) for argument in arguments]
    return b"".join(parts)


async def send(client: Redis, commands: Sequence[bytes]) -> list[object]:
    """Sends packed commands in one round trip and returns their replies. Raises the first error among them, and what
    redis-py raises.
    """
    connection = await client.connection_pool.get_connection()  # type: ignore[no-untyped-call] # wrapped without types
    replies: list[object] = []
    refused: ResponseError | None = None
    try:
        await connection.send_packed_command(commands)
        for _ in commands:
            try:
                replies.append(await connection.read_response())
            except ResponseError as error:
                refused = refused or error
    finally:
        await client.connection_pool.release(connection)
    stop_if_cancelled()
    if refused is not None:
        raise refused
    return replies
