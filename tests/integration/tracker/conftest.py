"""A migrated database with two sessions, and its log as the tracker reads it."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.integration.tracker.log import Log, followed

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
    async with followed(database_url, writer) as log:
        yield log
