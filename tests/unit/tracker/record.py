"""Records what a real server says of `recorded/statements.sql`: `python -m tests.unit.tracker.record <address of a
migrated database>`.
"""

import asyncio
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncpg

STATEMENTS = Path(__file__).with_name("recorded") / "statements.sql"
MESSAGES = STATEMENTS.with_name("messages.bin")
LENGTH = struct.Struct("!I")

_READ = """
SELECT data FROM pg_logical_slot_get_binary_changes('recorder', NULL, NULL,
    'proto_version', '1', 'publication_names', 'conversation_receipts')
"""


async def record(database_url: str) -> bytes:
    """Runs each statement in a transaction of its own; every message behind its length."""
    settings = {"timezone": "UTC", "datestyle": "ISO"}
    connection = await asyncpg.connect(database_url, server_settings=settings)
    try:
        await connection.execute("SELECT pg_create_logical_replication_slot('recorder', 'pgoutput', true)")
        for statement in STATEMENTS.read_text().splitlines():
            await connection.execute(statement)
        rows = await connection.fetch(_READ)
        await connection.execute("SELECT pg_drop_replication_slot('recorder')")
    finally:
        await connection.close()
    return b"".join(LENGTH.pack(len(row["data"])) + row["data"] for row in rows)


def recorded() -> Iterator[bytes]:
    """The recorded messages, in order."""
    data, at = MESSAGES.read_bytes(), 0
    while at < len(data):
        (length,) = LENGTH.unpack_from(data, at)
        yield data[at + LENGTH.size : at + LENGTH.size + length]
        at += LENGTH.size + length


if __name__ == "__main__":
    MESSAGES.write_bytes(asyncio.run(record(sys.argv[1])))
