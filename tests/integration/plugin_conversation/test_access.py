"""Two people, two workspaces, two plugins: nothing of one reaches the other."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

import pytest
import pytest_asyncio
from pydantic import SecretStr

from shared.database import open_pool
from tests.conftest import new_database
from tests.integration.identity.people import People
from tests.integration.plugin_conversation.plugins import Plugin
from tests.support.plugins import install
from tests.support.stack import Stack

ANONYMOUS = (401, "unauthenticated", "authentication required", False)
NOT_BOUND = (401, "unauthenticated", "invalid conversation binding", False)
SESSION_NOT_FOUND = (404, "not_found", "task session not found", False)
INVALID_CURSOR = (400, "invalid_query", "invalid cursor", False)


@dataclass(frozen=True)
class World:
    """Plugin `a` as each of two people uses it; each may read the session that is named after them."""

    stack: Stack
    mine: Plugin
    theirs: Plugin


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def world(postgres_url: str, migrated_template: str, redis_url: str) -> AsyncIterator[World]:
    """The services with authentication enabled; two people who share nothing but the plugins `a` and `b`."""
    address = urlunsplit(urlsplit(redis_url)._replace(path="/2"))
    with new_database(postgres_url, template=migrated_template) as url:
        async with Stack(url, address, auth="enabled") as stack:
            await stack.start_all()
            pool = await open_pool(SecretStr(url), 2, "test")
            people = People(pool)
            plugins = []
            await install(stack, "a", gateways=())
            await install(stack, "b", gateways=())
            for name in ("mine", "theirs"):
                person = await people.add()
                await stack.pool.execute("INSERT INTO workspaces (id, owner_id) VALUES ($1, $2)", name, person.id)
                await stack.pool.execute("INSERT INTO tasks (id, workspace_id) VALUES ($1, $1)", name)
                await stack.session(name, task_id=name)
                for number in range(3):
                    await stack.add(name, f"{name}{number}", task_id=name, content=f"of {name}")
                plugins.append(await Plugin(stack, "a", headers=person.bearer).bound())
            await pool.close()
            yield World(stack, *plugins)


@pytest.mark.parametrize(
    "path", ["/binding", *(f"/v2/task-sessions/mine/{what}" for what in ("messages", "turns", "revision"))]
)
@pytest.mark.parametrize("plugin_id", ["a", "unknown"])
async def test_who_asks_comes_first(world: World, path: str, plugin_id: str) -> None:
    for headers in ({}, {"Authorization": "Bearer kdv_unknown"}):
        nobody = Plugin(world.stack, plugin_id, binding=world.mine.binding, headers=headers)
        assert (await nobody.get(path, {"limit": "0"})).error == ANONYMOUS


@pytest.mark.parametrize("what", ["messages", "turns", "revision"])
async def test_a_foreign_session_is_like_none(world: World, what: str) -> None:
    assert (await world.mine.read("mine", what)).status == 200
    assert (await world.theirs.read("theirs", what)).status == 200
    foreign, missing = await world.mine.read("theirs", what), await world.mine.read("missing", what)
    assert foreign.error == missing.error == SESSION_NOT_FOUND
    same = set(foreign.headers) - {"Date", "X-Request-ID"}
    assert {name: foreign.headers[name] for name in same} == {name: missing.headers[name] for name in same}


async def test_nothing_else_that_is_asked_tells_a_foreign_session_from_none(world: World) -> None:
    cursor = (await world.theirs.read("theirs", limit=1)).body["cursor"]
    for query in ({"task_id": "theirs"}, {"task_id": "u"}, {"limit": 1, "cursor": cursor}, {"expected_revision": 0}):
        for session in ("theirs", "missing"):
            assert (await world.mine.read(session, **query)).error == SESSION_NOT_FOUND, query


async def test_a_binding_is_of_one_person_and_one_plugin(world: World) -> None:
    borrowed = Plugin(world.stack, "a", binding=world.theirs.binding, headers=world.mine.headers)
    assert (await borrowed.read("mine")).error == NOT_BOUND
    elsewhere = Plugin(world.stack, "b", binding=world.mine.binding, headers=world.mine.headers)
    assert (await elsewhere.read("mine")).error == NOT_BOUND
    # Both of what it says is looked at, also where the other one is right.
    assert (await (await elsewhere.bound()).read("mine")).status == 200


async def test_a_cursor_is_of_one_person_and_one_plugin(world: World) -> None:
    """Somebody who may read the session too, or another plugin of the same person, cannot go on with it."""
    await world.stack.pool.execute(
        "INSERT INTO workspace_members (workspace_id, user_id) "
        "SELECT 'mine', owner_id FROM workspaces WHERE id = 'theirs'"
    )
    try:
        page = await world.mine.read("mine", limit=1)
        query = {"limit": 1, "cursor": page.body["cursor"]}
        assert (await world.mine.read("mine", **query)).ids() == ["mine1"]
        assert (await world.theirs.read("mine", limit=1)).ids() == page.ids()
        assert (await world.theirs.read("mine", **query)).error == INVALID_CURSOR
        other = await Plugin(world.stack, "b", headers=world.mine.headers).bound()
        assert (await other.read("mine", **query)).error == INVALID_CURSOR
    finally:
        await world.stack.pool.execute("DELETE FROM workspace_members WHERE workspace_id = 'mine'")


async def test_no_row_of_one_is_in_a_page_of_the_other(world: World) -> None:
    """Not even of a row that was moved: its old session's readers see it no more."""
    await world.stack.add("theirs", "moved", task_id="theirs", content="of theirs")
    await world.stack.pool.execute(
        "UPDATE task_session_messages SET task_session_id = 'mine', task_id = 'mine' WHERE id = 'moved'"
    )
    assert set((await world.theirs.read("theirs")).ids()) == {"theirs0", "theirs1", "theirs2"}
    assert "moved" in (await world.mine.read("mine")).ids()


async def test_access_that_ends_ends_at_once(world: World) -> None:
    """A binding says who asks, never what they may read."""
    owner = await world.stack.pool.fetchval("SELECT owner_id FROM workspaces WHERE id = 'theirs'")
    change = "UPDATE workspaces SET owner_id = $1 WHERE id = 'theirs'"
    await world.stack.pool.execute(change, "nobody")
    try:
        assert (await world.theirs.read("theirs")).error == SESSION_NOT_FOUND
    finally:
        await world.stack.pool.execute(change, owner)
    assert (await world.theirs.read("theirs")).status == 200
