"""The commands on accounts: what they do in the database, and what they print."""

import json
from collections.abc import AsyncIterator

import asyncpg
import pytest
from pydantic import SecretStr

from services.gateway.identity.accounts import Accounts
from services.gateway.identity.passwords import Passwords
from services.gateway.identity.tokens import AccessTokens
from shared.database import open_pool
from tests.integration.cli.command import Ended, run, run_with_input

PASSWORD = "correct horse battery"


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[asyncpg.Pool]:
    """The database that the commands work on."""
    pool = await open_pool(SecretStr(database_url), 1, "test")
    yield pool
    await pool.close()


async def with_password(url: str, *arguments: str, line: str = PASSWORD) -> Ended:
    """A command that reads the password from standard input."""
    return await run_with_input(f"{line}\n".encode(), "user", *arguments, "--password-stdin", KANDEV_DATABASE_URL=url)


async def test_the_first_administrator(database_url: str, pool: asyncpg.Pool) -> None:
    made = await with_password(database_url, "add", "ann", "--admin", "--display-name", "Ann")
    assert (made.code, made.out) == (0, "")
    assert PASSWORD not in made.err
    known = await Accounts(pool).known("ANN")
    assert known is not None
    assert await Passwords().matches(known.password_hash, PASSWORD)
    (account,) = await Accounts(pool).all()
    assert (account.display_name, account.administrator, account.disabled) == ("Ann", True, False)


async def test_accounts_are_listed_changed_and_kept_usable(database_url: str, pool: asyncpg.Pool) -> None:
    none = await run("user", "list", KANDEV_DATABASE_URL=database_url)
    assert (none.code, none.out) == (0, "")
    assert "user add" in none.err
    await with_password(database_url, "add", "ann", "--admin")
    await with_password(database_url, "add", "bob")
    listed = await run("user", "list", "--json", KANDEV_DATABASE_URL=database_url)
    users = json.loads(listed.out)["users"]
    assert [(user["username"], user["administrator"], user["disabled"]) for user in users] == [
        ("ann", True, False),
        ("bob", False, False),
    ]
    table = await run("user", "list", KANDEV_DATABASE_URL=database_url)
    assert [line.split() for line in table.out.splitlines()] == [
        ["NAME", "DISPLAY", "NAME", "ROLE", "STATE", "ID"],
        ["ann", "administrator", "active", users[0]["id"]],
        ["bob", "user", "active", users[1]["id"]],
    ]
    last = await run("user", "disable", "ann", KANDEV_DATABASE_URL=database_url)
    assert last.code == 2
    assert "last active administrator" in last.err
    assert (await run("user", "disable", "Bob", KANDEV_DATABASE_URL=database_url)).code == 0
    assert await Accounts(pool).known("bob") is None
    assert (await run("user", "enable", "bob", KANDEV_DATABASE_URL=database_url)).code == 0
    before = await Accounts(pool).known("bob")
    assert before is not None
    assert (await with_password(database_url, "password", "bob", line="another horse")).code == 0
    after = await Accounts(pool).known("bob")
    assert after is not None
    assert await Passwords().matches(after.password_hash, "another horse")


async def test_administrators_are_made_and_unmade(database_url: str, pool: asyncpg.Pool) -> None:
    """Who is added while there is none is told how one is made."""
    first = await with_password(database_url, "add", "ann")
    assert "There is no administrator yet" in first.err
    assert (await run("user", "promote", "ANN", KANDEV_DATABASE_URL=database_url)).code == 0
    second = await with_password(database_url, "add", "bob")
    assert "administrator" not in second.err
    last = await run("user", "demote", "ann", KANDEV_DATABASE_URL=database_url)
    assert (last.code, "last active administrator" in last.err) == (2, True)
    await run("user", "promote", "bob", KANDEV_DATABASE_URL=database_url)
    assert (await run("user", "demote", "ann", KANDEV_DATABASE_URL=database_url)).code == 0
    assert [account.administrator for account in await Accounts(pool).all()] == [False, True]


async def test_times_of_tokens_are_told_to_the_second_with_their_zone(database_url: str, pool: asyncpg.Pool) -> None:
    await with_password(database_url, "add", "ann")
    user_id = await Accounts(pool).id_of("ann")
    await pool.execute(
        "INSERT INTO gateway.access_tokens (id, user_id, secret_hash, created_at, expires_at, last_used_at) "
        "VALUES ('0123abcd', $1, '', '2026-01-02 03:04:05.678Z', '2026-02-03Z', '2026-01-02 03:04:06.789Z')",
        user_id,
    )
    shown = await run("user", "tokens", "ann", KANDEV_DATABASE_URL=database_url)
    assert [cell.strip() for cell in shown.out.splitlines()[1].split("  ") if cell] == [
        "0123abcd",
        "2026-01-02 03:04:05 UTC",
        "2026-02-03 00:00:00 UTC (ended)",
        "2026-01-02 03:04:06 UTC",
    ]


async def test_a_token_is_printed_once(database_url: str, pool: asyncpg.Pool) -> None:
    await with_password(database_url, "add", "ann")
    made = await run("user", "token", "ann", "--name", "laptop", "--expires", "90", KANDEV_DATABASE_URL=database_url)
    text = made.out.strip()
    caller = await AccessTokens(pool).caller(text)
    assert caller is not None
    assert caller.username == "ann"
    listed = await run("user", "tokens", "ann", "--json", KANDEV_DATABASE_URL=database_url)
    (token,) = json.loads(listed.out)["tokens"]
    assert token["name"] == "laptop"
    assert token["expires_at"] > token["created_at"]
    assert text.startswith(f"kandev_pat_{token['id']}_")
    secret = text.rpartition(f"{token['id']}_")[2]
    table = await run("user", "tokens", "ann", KANDEV_DATABASE_URL=database_url)
    assert token["id"] in table.out
    assert secret not in listed.out + table.out + made.err
    assert (await run("user", "revoke", token["id"], KANDEV_DATABASE_URL=database_url)).code == 0
    assert await AccessTokens(pool).caller(text) is None


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["disable", "nobody"], "There is no such user."),
        (["revoke", "0123abcd"], "There is no such token."),
        (["add", "ann"], "use --password-stdin"),
        (["token", "ann", "--expires", "0"], "--expires"),
        (["nonsense"], "There is no command 'nonsense'"),
    ],
)
async def test_what_cannot_be_done_is_a_sentence(database_url: str, arguments: list[str], says: str) -> None:
    refused = await run("user", *arguments, KANDEV_DATABASE_URL=database_url)
    assert (refused.code, refused.out) == (2, "")
    assert says in refused.err
    assert "Traceback" not in refused.err


async def test_what_is_refused_is_not_shown(database_url: str) -> None:
    refused = await with_password(database_url, "add", "bob", line="seven77")
    assert refused.code == 2
    assert "at least 8 characters" in refused.err
    assert "seven77" not in refused.err


async def test_a_database_that_is_away_or_not_migrated(empty_database_url: str) -> None:
    away = await run("user", "list", KANDEV_DATABASE_URL="postgresql://me:hunter2@127.0.0.1:1/db")
    assert away.code == 2
    assert "cannot be reached" in away.err
    empty = await run("user", "list", KANDEV_DATABASE_URL=empty_database_url)
    assert empty.code == 2
    assert "kandev-conversation migrate" in empty.err
    assert "hunter2" not in away.err


async def test_the_group_names_every_command() -> None:
    shown = await run("user", "--help")
    assert shown.code == 0
    assert all(
        f"\n  {command} " in shown.out
        for command in (
            "add",
            "list",
            "disable",
            "enable",
            "promote",
            "demote",
            "password",
            "token",
            "tokens",
            "revoke",
        )
    )


async def test_a_token_variable_that_is_none_is_not_shown() -> None:
    refused = await run("sessions", KANDEV_TOKEN="hunter2 hunter2", KANDEV_URL="http://127.0.0.1:1")
    assert refused.code == 2
    assert "KANDEV_TOKEN is no access token" in refused.err
    assert "hunter2" not in refused.err
    listed = await run("settings", "--json", KANDEV_TOKEN="hunter2")
    assert "hunter2" not in listed.out
    assert "no setting" not in listed.err
