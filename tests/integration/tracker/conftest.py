"""A migrated database with two sessions, and its log as the tracker reads it."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from services.revision.epoch import read_epoch
from services.revision.tracker.assembly import Assembler
from services.revision.tracker.stream import ReplicationStream
from tests.integration.tracker.log import Log, blocking

SEED = """
INSERT INTO workspaces (id) VALUES ('w');
INSERT INTO tasks (id, workspace_id) VALUES ('t', 'w'), ('u', 'w');
INSERT INTO task_sessions (id, task_id) VALUES ('s1', 't'), ('s2', 't'), ('fence', 't');
"""


@pytest.fixture
async def writer(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database_url)
    await connection.execute(SEED)
    yield connection
    await connection.close()


@pytest.fixture
async def log(database_url: str, writer: asyncpg.Connection) -> AsyncIterator[Log]:
    stream = await ReplicationStream.connect(database_url)
    try:
        await stream.create_slot(20, lambda: blocking(writer, stream))
        epoch = await read_epoch(writer)
        await stream.start(Assembler(epoch))
        yield Log(stream, writer, epoch)
    finally:
        await stream.close()
