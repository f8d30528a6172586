"""Access that ends while conversations are followed, as another replica hears of it over the control stream (G10)."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from services.gateway.identity import watch
from services.gateway.plugins import registry
from services.gateway.scopes import checks
from shared.contracts.control import MembershipChanged, PluginChanged
from tests.integration.gateway.following import (
    CHANGES,
    House,
    PluginChange,
    ended_with_a_word_each,
    followers,
    refused_as_if_there_were_none,
)

NEVER = 3600.0


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def house(postgres_url: str, migrated_template: str, redis_url: str) -> AsyncIterator[House]:
    """Gateways that look at nothing by themselves: what acts there came over the control stream."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "PERIOD_SECONDS", NEVER)
        patch.setattr(watch, "PERIOD_SECONDS", NEVER)
        patch.setattr(registry, "LOOK_SECONDS", NEVER)
        async with House.open(postgres_url, migrated_template, redis_url, 4) as house:
            yield house


@pytest.mark.parametrize("change", CHANGES)
async def test_a_plugin_that_changes_loses_its_scopes_on_another_replica(house: House, change: PluginChange) -> None:
    found = await followers(house)
    await change(house, found.plugins[0])
    await house.announce(PluginChanged(plugin_id=found.plugins[0]))
    await found.left({("owner", found.plugins[0]), ("guest", found.plugins[0])})


async def test_a_plugin_that_is_only_configured_keeps_its_scopes(house: House) -> None:
    found = await followers(house)
    await house.stack.pool.execute(
        "UPDATE gateway.plugins SET config = '{\"a\": 1}', updated_at = now() WHERE id = $1", found.plugins[0]
    )
    await house.announce(PluginChanged(plugin_id=found.plugins[0]))
    await house.plugin(found.plugins[1], version="1.0.1")
    await found.left({("owner", found.plugins[1]), ("guest", found.plugins[1])})


async def test_a_member_who_is_removed_loses_every_scope_on_another_replica(house: House) -> None:
    found = await followers(house)
    path = f"/api/v1/workspaces/{found.room.workspace}/members/{found.guest.id}"
    status, body = await house.stack.call("DELETE", path, headers=found.room.owner.bearer)
    assert status == 200, body
    await found.left({("guest", scope_id) for scope_id in ("core", *found.plugins)})
    await refused_as_if_there_were_none(found, "guest")


async def test_a_token_that_is_revoked_ends_what_it_opened_on_another_replica(house: House) -> None:
    found = await followers(house)
    guest = found.guest
    status, _ = await house.stack.call("DELETE", f"/api/v1/auth/tokens/{guest.token_id}", headers=guest.bearer)
    assert status in {200, 204}
    await ended_with_a_word_each(found)


async def test_access_that_is_given_back_can_be_used_again(house: House) -> None:
    found = await followers(house)
    await house.stack.pool.execute("DELETE FROM workspace_members WHERE user_id = $1", found.guest.id)
    changed = MembershipChanged(workspace_id=found.room.workspace, users=(found.guest.id,))
    await house.announce(changed)
    client = found.clients["guest"]
    await client.until(lambda: client.terminals("core") == 1)
    await house.stack.pool.execute(
        "INSERT INTO workspace_members (workspace_id, user_id) VALUES ($1, $2)", found.room.workspace, found.guest.id
    )
    await house.announce(changed)
    assert (await client.subscribe(found.room.session, "again"))["success"]
    await house.stack.add(found.room.session, f"m-{found.room.session}", task_id=found.room.task)
    await client.reached(await house.stack.revision(found.room.session), "again")
    assert client.terminals("again") == 0


async def test_a_member_who_is_removed_while_subscribing(house: House) -> None:
    """Whatever the order: a scope that was opened is ended, one that was not is refused, none stays."""
    room = await house.room()
    for round_ in range(10):
        guest = await house.guest(room)
        client = await house.connect(guest)
        path = f"/api/v1/workspaces/{room.workspace}/members/{guest.id}"
        reply, (status, _) = await asyncio.gather(
            client.subscribe(room.session, f"scope{round_}"),
            house.stack.call("DELETE", path, headers=room.owner.bearer),
        )
        assert status == 200
        if reply["success"]:
            await client.until(lambda client=client, scope=f"scope{round_}": client.terminals(scope) == 1)  # type: ignore[misc] # bound
        else:
            assert reply["error"]["code"] == "not_found"
        assert client.removals(room.session) == 0
