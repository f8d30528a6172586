"""Access that ends while conversations are followed, and nobody says so: the control entry was lost, or plain SQL made
the change. The next check acts (G10).
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.integration.gateway.following import (
    CHANGES,
    House,
    PluginChange,
    ended_with_a_word_each,
    followers,
    refused_as_if_there_were_none,
)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def house(postgres_url: str, migrated_template: str, redis_url: str) -> AsyncIterator[House]:
    """Gateways that hear nothing of what tests change."""
    async with House.open(postgres_url, migrated_template, redis_url, 5) as house:
        yield house


@pytest.mark.parametrize("change", CHANGES)
async def test_a_plugin_that_changes_without_a_word(house: House, change: PluginChange) -> None:
    found = await followers(house)
    await change(house, found.plugins[0])
    await found.left({("owner", found.plugins[0]), ("guest", found.plugins[0])})


async def test_a_member_who_is_removed_without_a_word(house: House) -> None:
    found = await followers(house)
    await house.stack.pool.execute("DELETE FROM workspace_members WHERE user_id = $1", found.guest.id)
    await found.left({("guest", scope_id) for scope_id in ("core", *found.plugins)})
    await refused_as_if_there_were_none(found, "guest")


async def test_a_workspace_that_changes_hands_without_a_word(house: House) -> None:
    """The owner is as good as a stranger then, the member stays one."""
    found = await followers(house)
    await house.stack.pool.execute("UPDATE workspaces SET owner_id = 'another' WHERE id = $1", found.room.workspace)
    await found.left({("owner", scope_id) for scope_id in ("core", *found.plugins)})


async def test_a_task_that_moves_to_another_workspace_without_a_word(house: House) -> None:
    found = await followers(house)
    elsewhere = await house.room(found.room.owner)
    await house.stack.pool.execute(
        "UPDATE tasks SET workspace_id = $2 WHERE id = $1", found.room.task, elsewhere.workspace
    )
    await found.left({("guest", scope_id) for scope_id in ("core", *found.plugins)})


async def test_a_token_that_is_revoked_without_a_word(house: House) -> None:
    found = await followers(house)
    await house.stack.pool.execute("DELETE FROM gateway.access_tokens WHERE id = $1", found.guest.token_id)
    await ended_with_a_word_each(found)
