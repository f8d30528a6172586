"""How long a gateway takes a token on trust that another gateway has ended."""

from collections.abc import AsyncIterator

import asyncpg
import pytest
from pydantic import SecretStr

from services.gateway.plugins.registry import Registry
from services.gateway.plugins.store import Store
from services.gateway.rpc.tokens import KEPT_SECONDS, PluginTokens
from shared.database import open_pool

_PLUGIN = """
INSERT INTO gateway.plugin_packages (hash, plugin_id, version, archive) VALUES ('hash', 'p', '1', '');
INSERT INTO gateway.plugins (id, version, package_hash, manifest, status) VALUES ('p', '1', 'hash', '{}', 'active');
"""


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[asyncpg.Pool]:
    """A gateway's pool, with the plugin `p`."""
    opened = await open_pool(SecretStr(database_url), 2, "test")
    await opened.execute(_PLUGIN)
    yield opened
    opened.terminate()


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_a_token_that_another_gateway_replaced_is_taken_for_five_seconds_at_most(pool: asyncpg.Pool) -> None:
    registry, clock = Registry(Store(pool)), Clock()
    await registry.refresh()
    here, there = PluginTokens(pool, registry, clock), PluginTokens(pool, registry, clock)
    first = await there.replace("p")
    assert await here.plugin(first) is not None
    second = await there.replace("p")
    # Where it was replaced, it has ended at once; a token that nobody has looked up yet is good at once.
    assert await there.plugin(first) is None
    assert await here.plugin(second) is not None
    clock.now += KEPT_SECONDS
    assert await here.plugin(first) is None
    assert await here.plugin(second) is not None


async def test_what_was_looked_up_is_asked_again_once_the_plugin_is_another_one(pool: asyncpg.Pool) -> None:
    registry = Registry(Store(pool))
    await registry.refresh()
    tokens = PluginTokens(pool, registry, Clock())
    token = await tokens.replace("p")
    assert await tokens.plugin(token) is not None
    await pool.execute("DELETE FROM gateway.plugins")
    await pool.execute(
        "INSERT INTO gateway.plugins (id, version, package_hash, manifest, status) "
        "VALUES ('p', '1', 'hash', '{}', 'active')"
    )
    await registry.refresh()
    assert registry.active("p") is not None
    assert await tokens.plugin(token) is None


async def test_only_a_first_token_is_given(pool: asyncpg.Pool) -> None:
    registry = Registry(Store(pool))
    await registry.refresh()
    tokens = PluginTokens(pool, registry)
    given = await tokens.give("p")
    assert given is not None
    assert await tokens.give("p") is None
    assert await tokens.plugin(given) is not None
