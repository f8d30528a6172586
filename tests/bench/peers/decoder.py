"""Commit → decoded: reads the replication stream and notes when each commit was there, and nothing more."""

import asyncio
import re
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg

from tests.bench.peers.answering import Answer, serve
from tests.bench.writing import MARK

_MARKED = re.compile(MARK.encode() + rb"(\d+)")


async def main(answer_all: Callable[[Answer], Awaitable[None]]) -> None:
    """Decodes the database whose address is the first argument."""
    connection = await psycopg.AsyncConnection.connect(sys.argv[1], autocommit=True, replication="database")
    await connection.execute('CREATE_REPLICATION_SLOT "bench_decoder" TEMPORARY LOGICAL pgoutput NOEXPORT_SNAPSHOT')
    await connection.execute(
        'START_REPLICATION SLOT "bench_decoder" LOGICAL 0/0 '
        "(proto_version '1', publication_names 'conversation_receipts')"
    )
    connection.pgconn.nonblocking = 1
    seen: dict[int, int] = {}
    inside: list[int] = []

    def on_readable() -> None:
        connection.pgconn.consume_input()
        while True:
            size, data = connection.pgconn.get_copy_data(1)
            if size <= 0:
                return
            kind = bytes(data[25:26])
            if kind == b"U" and (found := _MARKED.search(data)) is not None:
                inside.append(int(found[1]))
            elif kind == b"C":
                now = time.monotonic_ns()
                seen.update((number, now) for number in inside)
                inside.clear()

    async def answer(_: dict[str, Any]) -> dict[str, Any]:
        taken = {str(number): at for number, at in seen.items()}
        seen.clear()
        return {"decoded": taken}

    asyncio.get_running_loop().add_reader(connection.pgconn.socket, on_readable)
    try:
        await answer_all(answer)
    finally:
        await connection.close()


if __name__ == "__main__":
    serve(main)
