"""The registry: what it knows of the table, whom it tells, and what stays while the database is away."""

import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from pydantic import SecretStr

from services.gateway.plugins.registry import Registry
from services.gateway.plugins.store import Store
from shared.contracts.control import PluginChanged
from shared.database import open_pool
from tests.support.plugins import manifest

PACKAGE = "INSERT INTO gateway.plugin_packages (hash, plugin_id, version, archive) VALUES ('hash', 'p', '1.0.0', '')"
PLUGIN = """
INSERT INTO gateway.plugins (id, version, package_hash, manifest, status) VALUES ($1, '1.0.0', 'hash', $2, 'active')
"""


class Followed:
    """A registry, and what it told a listener."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self.pool = pool
        self.registry = Registry(Store(pool))
        self.told: list[frozenset[str]] = []
        self.registry.listen(self.told.append)

    async def add(self, plugin_id: str, declared: dict[str, Any] | None = None) -> None:
        """Puts a plugin into the table."""
        await self.pool.execute(PLUGIN, plugin_id, json.dumps(declared or manifest(plugin_id)))

    async def after(self, statement: str, *arguments: object) -> list[frozenset[str]]:
        """What a statement makes the registry tell."""
        self.told.clear()
        await self.pool.execute(statement, *arguments)
        await self.registry.refresh()
        return list(self.told)


@pytest.fixture
async def followed(database_url: str) -> AsyncIterator[Followed]:
    pool = await open_pool(SecretStr(database_url), 2, "test")
    await pool.execute(PACKAGE)
    yield Followed(pool)
    await pool.close()


async def test_listeners_hear_of_what_became_another_plugin(followed: Followed) -> None:
    await followed.add("a")
    await followed.add("b", manifest("b", reads=(), user_state=False))
    assert await followed.after("SELECT 1") == [frozenset({"a", "b"})]
    a, b = followed.registry.all_active()
    assert (a.id, a.may_read("messages"), a.may_read("tasks"), a.user_state) == ("a", True, False, True)
    assert (b.id, b.may_read("messages"), b.user_state) == ("b", False, False)

    update = "UPDATE gateway.plugins SET {} WHERE id = 'a'"
    assert await followed.after("SELECT 1") == []
    assert await followed.after(update.format("config = '{\"x\": 1}'")) == []
    assert await followed.after(update.format("updated_at = clock_timestamp()")) == []
    assert await followed.after(update.format("installed_at = installed_at + interval '1 microsecond'")) == [
        frozenset({"a"})
    ]
    reads_nothing = json.dumps(manifest("a", reads=()))
    assert await followed.after("UPDATE gateway.plugins SET manifest = $1 WHERE id = 'a'", reads_nothing) == [
        frozenset({"a"})
    ]
    assert await followed.after(update.format("status = 'disabled'")) == [frozenset({"a"})]
    assert followed.registry.active("a") is None
    assert followed.registry.installed("a") is not None
    assert await followed.after("DELETE FROM gateway.plugins") == [frozenset({"b"})]
    assert followed.registry.all_installed() == ()


async def test_a_manifest_that_cannot_be_read_is_not_active_and_harms_no_other(
    followed: Followed, caplog: pytest.LogCaptureFixture
) -> None:
    await followed.add("bad", {"capabilities": "planted-secret"})
    await followed.add("good")
    await followed.registry.refresh()
    assert [plugin.id for plugin in followed.registry.all_active()] == ["good"]
    assert "bad" in caplog.text
    assert "planted-secret" not in caplog.text


async def test_what_is_known_stays_while_the_database_is_away(
    followed: Followed, caplog: pytest.LogCaptureFixture
) -> None:
    await followed.add("a")
    await followed.registry.refresh()
    await followed.pool.close()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            await followed.registry.changed(PluginChanged(plugin_id="a"))
    assert followed.registry.active("a") is not None
    assert len(caplog.records) == 1
