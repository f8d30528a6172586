"""The three services, on a database of the test's own."""

from collections.abc import AsyncIterator

import pytest

from tests.support.stack import Stack


@pytest.fixture
async def stack(database_url: str, redis_url: str) -> AsyncIterator[Stack]:
    """All three services, ready; a test may do with them what it likes."""
    async with Stack(database_url, redis_url) as stack:
        yield await stack.start_all()
