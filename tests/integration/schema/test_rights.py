"""Writers need rights on the rows they write, and on nothing of this service; readers are told what they may see."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg
import psycopg
import pytest
from psycopg import sql

TABLES = "task_sessions, task_session_messages, task_session_turns"


@contextmanager
def plain_role(url: str) -> Iterator[str]:
    """A role with rights on the source tables only; dropped with them."""
    role = f"writer_{secrets.token_hex(8)}"
    name = sql.Identifier(role)
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(sql.SQL("CREATE ROLE {}").format(name))
        owner.execute(sql.SQL("GRANT SELECT, INSERT, UPDATE, DELETE ON " + TABLES + " TO {}").format(name))
    try:
        yield role
    finally:
        with psycopg.connect(url, autocommit=True) as owner:
            owner.execute(sql.SQL("DROP OWNED BY {}").format(name))
            owner.execute(sql.SQL("DROP ROLE {}").format(name))


async def test_a_writer_with_rights_on_the_source_tables_alone(source: Any, database_url: str) -> None:
    with plain_role(database_url) as role:
        await source.execute(f'SET ROLE "{role}"')
        await source.execute("INSERT INTO task_sessions (id, task_id) VALUES ('mine', 't')")
        assert (await source.say("p", session="mine"))["prompt_seq"] == 1
        await source.say("r", session="mine", author="agent")
        await source.execute("INSERT INTO task_session_turns (id, task_session_id, task_id) VALUES ('u', 'mine', 't')")
        await source.execute("UPDATE task_session_turns SET completed_at = clock_timestamp()")
        await source.execute("UPDATE task_session_messages SET task_session_id = 'a'")
        await source.execute("DELETE FROM task_session_messages WHERE id = 'r'")
        await source.execute("DELETE FROM task_sessions WHERE id = 'mine'")
        for refused in (
            "SELECT * FROM conversation.epoch",
            "UPDATE conversation_session_revisions SET revision = 0",
            "SELECT conversation.mint_epoch('mine')",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await source.execute(refused)
        await source.execute("RESET ROLE")
        assert (await source.revision("a"), await source.floor()) == (3, 7)


async def test_a_writer_cannot_make_the_triggers_run_its_own_functions(source: Any, database_url: str) -> None:
    await source.execute(
        "CREATE SCHEMA evil;"
        "CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'evil ran'; END $$;"
        "CREATE TABLE evil.task_session_messages (id text, created_at timestamptz);"
        "SET search_path = evil, pg_catalog"
    )
    await source.execute(
        "INSERT INTO public.task_session_messages (id, task_session_id, task_id, author_type) "
        "VALUES ('p', 'a', 't', 'user'), ('r', 'a', 't', 'agent')"
    )
    await source.execute("RESET search_path")
    assert await source.revision("a") == 2


@pytest.mark.parametrize(
    ("owner", "member", "user", "unscoped", "visible"),
    [
        ("", None, "ann", False, True),
        ("ann", None, "ann", False, True),
        ("ann", None, "bob", False, False),
        ("ann", "bob", "bob", False, True),
        ("ann", "bob", "eve", False, False),
        ("ann", None, "bob", True, True),
        ("ann", None, "", False, False),
    ],
)
async def test_who_sees_what(
    source: Any, *, owner: str, member: str | None, user: str, unscoped: bool, visible: bool
) -> None:
    await source.execute("UPDATE workspaces SET owner_id = $1", owner)
    if member is not None:
        await source.execute("INSERT INTO workspace_members (workspace_id, user_id) VALUES ('w', $1)", member)
    row = await source.connection.fetchrow(
        "SELECT conversation.session_visible('a', $1, $2), conversation.task_visible('t', $1, $2), "
        "conversation.workspace_visible('w', $1, $2)",
        user,
        unscoped,
    )
    assert tuple(row) == (visible, visible, visible)


async def test_what_does_not_exist_is_seen_by_nobody(source: Any) -> None:
    row = await source.connection.fetchrow(
        "SELECT conversation.session_visible('x', 'ann', true), conversation.task_visible('x', 'ann', true), "
        "conversation.workspace_visible('x', 'ann', true)"
    )
    assert tuple(row) == (False, False, False)
