"""A migrated database with people and conversations in it, and readers on it."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from services.reader.pools import Sources
from tests.integration.reader.people import PEOPLE, Reading, open_sources


@pytest.fixture
async def db(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A writer's connection to the database of this test."""
    connection = await asyncpg.connect(database_url)
    await connection.execute(PEOPLE)
    yield connection
    await connection.close()


@pytest.fixture
async def sources(database_url: str, db: asyncpg.Connection) -> AsyncIterator[Sources]:
    """The reader's pools on the database of this test."""
    async with open_sources(database_url) as opened:
        yield opened


@pytest.fixture
def reader(sources: Sources) -> Reading:
    """A reader on the database of this test."""
    return Reading(sources)
