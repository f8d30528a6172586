"""The three services, for the tests of what the document says of them."""

from collections.abc import AsyncIterator
from urllib.parse import urlsplit, urlunsplit

import pytest_asyncio

from tests.conftest import new_database
from tests.support.stack import Stack


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shared_stack(postgres_url: str, migrated_template: str, redis_url: str) -> AsyncIterator[Stack]:
    """All three services, ready, on a database of the module's own."""
    address = urlunsplit(urlsplit(redis_url)._replace(path="/2"))
    with new_database(postgres_url, template=migrated_template) as url:
        async with Stack(url, address) as stack:
            yield await stack.start_all()
