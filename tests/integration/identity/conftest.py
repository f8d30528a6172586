"""The services with authentication enabled and two gateways, on a database of the module's; and people to sign in."""

from collections.abc import AsyncIterator
from urllib.parse import urlsplit, urlunsplit

import pytest
import pytest_asyncio
from pydantic import SecretStr

from shared.database import open_pool
from tests.conftest import new_database
from tests.integration.identity.people import SECOND, People, Person
from tests.support.stack import Stack


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def guarded(postgres_url: str, migrated_template: str, redis_url: str) -> AsyncIterator[Stack]:
    """All three services with authentication enabled, and a second gateway."""
    address = urlunsplit(urlsplit(redis_url)._replace(path="/2"))
    with new_database(postgres_url, template=migrated_template) as url:
        async with Stack(url, address, auth="enabled") as stack:
            await stack.start_all()
            await stack.start("gateway", name=SECOND)
            await stack.ready(SECOND)
            yield stack


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def people(guarded: Stack) -> AsyncIterator[People]:
    """Whom the tests need."""
    pool = await open_pool(SecretStr(guarded.database_url), 4, "test")
    yield People(pool)
    await pool.close()


@pytest.fixture(autouse=True)
async def nobody_failed(guarded: Stack) -> None:
    """All tests come from one address: none starts with the failures of another."""
    await guarded.pool.execute("DELETE FROM gateway.login_attempts")


@pytest.fixture
async def person(people: People) -> Person:
    """An ordinary user."""
    return await people.add()


@pytest.fixture
async def administrator(people: People) -> Person:
    """An administrator."""
    return await people.add(administrator=True)
