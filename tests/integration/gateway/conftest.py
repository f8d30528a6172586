"""The three services, on a database of the test's own or of the module's."""

from collections.abc import AsyncIterator
from urllib.parse import urlsplit, urlunsplit

import pytest
import pytest_asyncio
from pydantic import SecretStr

from shared.database import open_pool
from tests.conftest import new_database
from tests.integration.identity.people import People
from tests.support.stack import Stack


@pytest.fixture
async def stack(database_url: str, redis_url: str) -> AsyncIterator[Stack]:
    """All three services, ready; a test may do with them what it likes."""
    async with Stack(database_url, redis_url) as stack:
        yield await stack.start_all()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shared_stack(postgres_url: str, migrated_template: str, redis_url: str) -> AsyncIterator[Stack]:
    """All three services, ready, for a module whose tests keep to sessions of their own and let the services run."""
    address = urlunsplit(urlsplit(redis_url)._replace(path="/1"))
    with new_database(postgres_url, template=migrated_template) as url:
        async with Stack(url, address) as stack:
            yield await stack.start_all()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def accounts_stack(postgres_url: str, migrated_template: str, redis_url: str) -> AsyncIterator[Stack]:
    """Like `shared_stack`, with authentication enabled."""
    address = urlunsplit(urlsplit(redis_url)._replace(path="/3"))
    with new_database(postgres_url, template=migrated_template) as url:
        async with Stack(url, address, auth="enabled") as stack:
            yield await stack.start_all()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def people(accounts_stack: Stack) -> AsyncIterator[People]:
    """Makes accounts of `accounts_stack`."""
    pool = await open_pool(SecretStr(accounts_stack.database_url), 2, "test")
    yield People(pool)
    await pool.close()
