"""A stack with a plugin that may read."""

from collections.abc import AsyncIterator
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
import pytest_asyncio
from pydantic import SecretStr

from services.gateway.plugins.keyring import Keyring
from shared.database import open_pool
from tests.conftest import new_database
from tests.integration.plugin_conversation.plugins import Plugin, installed
from tests.support.stack import Stack


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shared_stack(postgres_url: str, migrated_template: str, redis_url: str) -> AsyncIterator[Stack]:
    """All three services, ready, for a module whose tests keep to sessions of their own and let the services run."""
    address = urlunsplit(urlsplit(redis_url)._replace(path="/2"))
    with new_database(postgres_url, template=migrated_template) as url:
        async with Stack(url, address) as stack:
            yield await stack.start_all()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def plugin(shared_stack: Stack) -> Plugin:
    """A plugin of the module, which no test changes."""
    return await installed(shared_stack, "reader")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def gateway_pool(shared_stack: Stack) -> AsyncIterator[asyncpg.Pool]:
    """Connections as a gateway has them."""
    pool = await open_pool(SecretStr(shared_stack.database_url), 2, "test")
    yield pool
    await pool.close()


@pytest.fixture
async def keyring(gateway_pool: asyncpg.Pool) -> Keyring:
    """The keys of the module's gateways, for tokens that no gateway would issue."""
    keyring = Keyring(gateway_pool)
    await keyring.refresh()
    return keyring
