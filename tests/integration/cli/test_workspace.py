"""The commands on owners and members of workspaces: what they do in the database, and what they print."""

import json
from collections.abc import AsyncIterator

import asyncpg
import pytest
from pydantic import SecretStr

from services.gateway.identity.accounts import Accounts
from shared.database import open_pool
from tests.integration.cli.command import Ended, run

ROWS = """
INSERT INTO workspaces (id, name) VALUES ('w1', 'Imported'), ('w2', 'Twice'), ('w3', 'Twice'), ('Imported', 'Else');
INSERT INTO tasks (id, workspace_id) VALUES ('t', 'w1');
INSERT INTO task_sessions (id, task_id) VALUES ('s1', 't'), ('s2', 't');
"""


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[asyncpg.Pool]:
    """The database that the commands work on, with workspaces of nobody's."""
    pool = await open_pool(SecretStr(database_url), 1, "test")
    await pool.execute(ROWS)
    yield pool
    await pool.close()


@pytest.fixture
async def ann(pool: asyncpg.Pool) -> str:
    """The id of an account."""
    return (await Accounts(pool).add("ann", "")).id


async def command(url: str, *arguments: str) -> Ended:
    """A command on workspaces."""
    return await run("workspace", *arguments, KANDEV_DATABASE_URL=url)


async def owner_of(pool: asyncpg.Pool, workspace_id: str) -> str:
    found: str = await pool.fetchval("SELECT owner_id FROM workspaces WHERE id = $1", workspace_id)
    return found


async def members_of(pool: asyncpg.Pool, workspace_id: str) -> list[str]:
    rows = await pool.fetch("SELECT user_id FROM workspace_members WHERE workspace_id = $1", workspace_id)
    return [row["user_id"] for row in rows]


async def test_a_workspace_is_given_away_and_back(database_url: str, pool: asyncpg.Pool, ann: str) -> None:
    assert (await command(database_url, "owner", "w1", "ANN")).code == 0
    assert await owner_of(pool, "w1") == ann
    assert (await command(database_url, "owner", "w1", "--everyone")).code == 0
    assert await owner_of(pool, "w1") == ""
    assert (await command(database_url, "owner", "w1", ann)).code == 0
    assert await owner_of(pool, "w1") == ann


async def test_a_workspace_is_shared_and_no_longer(database_url: str, pool: asyncpg.Pool, ann: str) -> None:
    for _ in range(2):
        assert (await command(database_url, "share", "Else", "ann")).code == 0
        assert await members_of(pool, "Imported") == [ann]
    await pool.execute("INSERT INTO workspace_members (workspace_id, user_id) VALUES ('w1', 'gone')")
    assert (await command(database_url, "unshare", "w1", "gone")).code == 0
    assert (await command(database_url, "unshare", "Else", "ann")).code == 0
    assert await members_of(pool, "Imported") == await members_of(pool, "w1") == []


async def test_an_id_wins_over_a_name(database_url: str, pool: asyncpg.Pool, ann: str) -> None:
    await Accounts(pool).add(ann, "")
    assert (await command(database_url, "owner", "Imported", ann)).code == 0
    assert (await owner_of(pool, "Imported"), await owner_of(pool, "w1")) == (ann, "")


async def test_they_are_listed(database_url: str, pool: asyncpg.Pool, ann: str) -> None:
    await pool.execute("DELETE FROM workspaces WHERE id NOT IN ('w1', 'w2')")
    await command(database_url, "owner", "w1", "ann")
    await command(database_url, "share", "w2", "ann")
    await pool.execute("INSERT INTO workspace_members (workspace_id, user_id) VALUES ('w2', 'gone')")
    shown = await command(database_url, "list")
    assert [line.split() for line in shown.out.splitlines()] == [
        ["NAME", "OWNER", "MEMBERS", "SESSIONS", "ID"],
        ["Imported", "ann", "2", "w1"],
        ["Twice", "ann,", "gone", "0", "w2"],
    ]
    told = json.loads((await command(database_url, "list", "--json")).out)
    assert told["total"] == 2
    assert told["workspaces"][0] == {
        "id": "w1",
        "name": "Imported",
        "owner_id": ann,
        "owner": "ann",
        "members": [],
        "sessions": 2,
    }


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["owner", "nothing", "ann"], "There is no such workspace."),
        (["owner", "Twice", "ann"], "Several workspaces have this name: give the id, one of w2, w3."),
        (["owner", "w1", "nobody"], "There is no such user."),
        (["owner", "w1"], "give --everyone"),
        (["owner", "w1", "ann", "--everyone"], "give --everyone"),
        (["share", "w1", "nobody"], "There is no such user."),
        (["unshare", "w1", "ann"], "There is no such member."),
    ],
)
async def test_what_cannot_be_done_is_a_sentence(
    database_url: str, pool: asyncpg.Pool, ann: str, arguments: list[str], says: str
) -> None:
    refused = await command(database_url, *arguments)
    assert (refused.code, refused.out) == (2, "")
    assert says in refused.err
    assert await pool.fetchval("SELECT count(*) FROM workspaces WHERE owner_id <> ''") == 0
    assert await pool.fetchval("SELECT count(*) FROM workspace_members") == 0


async def test_the_group_names_every_command() -> None:
    shown = await run("workspace", "--help")
    assert shown.code == 0
    assert all(f"\n  {name} " in shown.out for name in ("list", "owner", "share", "unshare"))
