"""The hops of a page of Host RPC at their least, on the reader's side: Redis to PostgreSQL and back, with the rows'
bytes put together.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import asyncpg
from pydantic import SecretStr

from shared.broker.connection import connect
from shared.broker.cursor import last_id
from tests.bench.bare_streams import read_after
from tests.bench.peers.answering import Answer, serve
from tests.bench.peers.page_gateway import KEPT, REPLIES, REQUESTS


async def main(answer_all: Callable[[Answer], Awaitable[None]]) -> None:
    """Reads the database of the first argument for the Redis of the second: the statement of the third with a task, the
    moment of the fourth and the number of rows of the fifth.
    """
    database, redis, statement, since, rows = sys.argv[1:]
    client = connect(SecretStr(redis))
    connection = await asyncpg.connect(database)
    prepared = await connection.prepare(statement)
    bounds = (datetime.fromisoformat(since), int(rows))

    async def read() -> None:
        position = await last_id(client, REQUESTS)
        while True:
            for _, entries in await read_after(client, {REQUESTS: position}, 16):
                for entry, fields in entries:
                    position = entry
                    found = await prepared.fetch(fields[b"t"].decode(), *bounds)
                    body = b"".join(value.encode() for row in found for value in row if isinstance(value, str))
                    await client.xadd(REPLIES, {"i": fields[b"i"], "b": body}, maxlen=KEPT, approximate=True)

    reading = asyncio.create_task(read())

    async def answer(_: dict[str, Any]) -> dict[str, Any]:
        return {}

    try:
        await answer_all(answer)
    finally:
        reading.cancel()
        await connection.close()
        await client.aclose()


if __name__ == "__main__":
    serve(main)
