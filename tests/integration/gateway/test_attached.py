"""Rows of another program, which our own tables would not take: read, followed and written beside all others."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from typing import Any

import asyncpg
import pytest

from client.connection import Connection
from client.follower import Follower
from client.range import Filter
from client.state import State
from client.writers import NewMessage, WriteRefused, Writers
from services.revision.schema.migrate import migrate
from shared.contracts.wire import CoreMessage
from tests.support.kandev import FILL, SCHEMA
from tests.support.stack import Stack

LONG = "long" * 75
CONTROLS = "tab\tand\nline"

INTEGERS = """
ALTER TABLE task_session_messages ALTER requests_input DROP DEFAULT,
    ALTER requests_input TYPE integer USING requests_input::integer, ALTER requests_input SET DEFAULT 0,
    ALTER content DROP NOT NULL, ALTER type DROP NOT NULL;
ALTER TABLE task_sessions ALTER is_passthrough DROP DEFAULT,
    ALTER is_passthrough TYPE integer USING is_passthrough::integer * 2, ALTER is_passthrough SET DEFAULT 2,
    ALTER state DROP NOT NULL, ALTER updated_at DROP NOT NULL;
ALTER TABLE tasks ALTER title DROP NOT NULL, ALTER created_at DROP NOT NULL, ALTER updated_at DROP NOT NULL;
ALTER TABLE workspaces ALTER name DROP NOT NULL;
"""
ODD = """
INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content, requests_input, type, created_at)
VALUES ('system', 's0', 't', 'system', 'said by a system', 7, 'note', '2026-02-01'),
       ('nothing', 's0', NULL, 'agent', NULL, NULL, NULL, '2026-02-02'),
       ($1, 's0', 't', 'agent', 'of a long id', 0, 'message', '2026-02-03'),
       ($2, 's0', 't', 'assistant', 'of an id with control characters', 1, 'message', '2026-02-04'),
       ('empty', 's0', 't', 'agent', NULL, 0, 'message', '2026-02-06'),
       ('asks', 's0', 't', 'agent', 'asks', 1, 'message', '2026-02-05')
"""
NULLS = """
UPDATE task_sessions SET state = NULL, updated_at = NULL WHERE id = 's1';
INSERT INTO tasks (id, workspace_id) VALUES ('untitled', 'w');
UPDATE workspaces SET name = NULL, owner_id = NULL;
"""
TOLD = """
SELECT id, CASE author_type WHEN 'user' THEN 'user' ELSE 'agent' END AS author, coalesce(content, '') AS content,
       coalesce(type, 'message') AS type, coalesce(requests_input, 0) <> 0 AS asks
  FROM task_session_messages WHERE task_session_id = 's0' ORDER BY created_at, id COLLATE "C"
"""

Told = tuple[str, str, str, str | None, bool]


@pytest.fixture
async def odd(empty_database_url: str, redis_url: str) -> AsyncIterator[Stack]:
    """The three services on the tables of another program, with rows like these."""
    connection = await asyncpg.connect(empty_database_url)
    await connection.execute(SCHEMA + INTEGERS + FILL.format(sessions=2, messages=60))
    await connection.execute("ALTER TABLE task_session_messages DISABLE TRIGGER USER")
    await connection.execute(ODD, LONG, CONTROLS)
    await connection.execute("ALTER TABLE task_session_messages ENABLE TRIGGER USER")
    await migrate(connection)
    await connection.close()
    stack = Stack(empty_database_url, redis_url)
    stack.room = False
    async with stack:
        yield await stack.start_all()


async def source(stack: Stack) -> Sequence[Told]:
    return [tuple(row) for row in await stack.pool.fetch(TOLD)]


def shown(follower: Follower) -> Sequence[Told]:
    bodies = [row.body for row in follower.rows()]
    return [
        (each.id, each.author_type, each.content, each.type, each.requests_input)
        for each in bodies
        if isinstance(each, CoreMessage)
    ]


def shows_all(state: State, revision: int) -> bool:
    held = state.held
    return state.live and held is not None and held.revision >= revision and not held.has_more


async def test_whatever_stands_there_is_told_as_it_is_read(odd: Stack) -> None:
    """Page by page, and commit by commit without reading again: no row, and no change of one, is taken for another."""
    filters = (Filter(), Filter(authors=("agent",)), Filter(authors=("user",)))
    async with AsyncExitStack() as stack:
        connection = await stack.enter_async_context(Connection(odd.url))
        followers = [
            await stack.enter_async_context(Follower(connection, "s0", scope_filter=chosen, limit=3, everything=True))
            for chosen in filters
        ]

        async def all_show(revision: int) -> None:
            expected = await source(odd)
            for follower, chosen in zip(followers, filters, strict=True):
                await follower.wait_until(lambda state: shows_all(state, revision))
                wanted = [row for row in expected if not chosen.authors or row[1] in chosen.authors]
                assert shown(follower) == wanted

        await all_show(await odd.revision("s0"))
        before = [follower.counters for follower in followers]
        for statement in (
            "UPDATE task_session_messages SET content = content || '!' WHERE id IN ('system', $1, $2)",
            "UPDATE task_session_messages SET requests_input = 3 WHERE id IN ('nothing', $1, $2)",
            "UPDATE task_session_messages SET type = NULL WHERE id IN ('system', $1, $2)",
            "UPDATE task_session_messages SET content = NULL WHERE id IN ('asks', $1, $2)",
            "UPDATE task_session_messages SET content = 'again' WHERE id IN ('nothing', $1, $2)",
        ):
            await odd.pool.execute(statement, LONG, CONTROLS)
            await all_show(await odd.revision("s0"))
        assert [(each.counters.resets, each.counters.repairs) for each in followers] == [
            (each.resets, each.repairs) for each in before
        ]
        # A task that may be NULL is not in the log of these: the session is read again (docs/operations.md).
        for statement in (
            "UPDATE task_session_messages SET author_type = 'tool' WHERE id IN ('asks', $1, $2)",
            "DELETE FROM task_session_messages WHERE id IN ('system', $1, $2)",
        ):
            await odd.pool.execute(statement, LONG, CONTROLS)
            await all_show(await odd.revision("s0"))


async def test_lists_hold_what_has_no_name_and_no_time(odd: Stack) -> None:
    await odd.pool.execute(NULLS)
    found: dict[str, Any] = {}  # Any: fields are looked at one by one
    for path in ("workspaces", "tasks", "task-sessions"):
        status, body = await odd.call("GET", f"/api/v1/{path}")
        assert status == 200, body
        found |= body
    assert found["workspaces"] == [{"id": "w", "name": "", "owner_id": ""}]
    assert [(each["id"], each["title"]) for each in found["tasks"]] == [("untitled", ""), ("t", "Task")]
    assert {each["id"]: (each["state"], each["is_passthrough"]) for each in found["sessions"]} == {
        "s0": ("CREATED", True),
        "s1": ("", True),
    }


async def test_a_search_finds_whoever_wrote_it(odd: Stack) -> None:
    client = await odd.connect()
    reply = await client.request("message.search", {"session_id": "s0", "query": "of a"})
    found = [(hit["id"], hit["author_type"]) for hit in reply["payload"]["hits"]]
    assert found == [(CONTROLS, "agent"), (LONG, "agent")]


async def test_commands_write_them(odd: Stack) -> None:
    made = NewMessage("made", "agent", "made")
    async with Writers(odd.url) as writers:
        assert (await writers.create_message("s0", made)).changed
        assert not (await writers.create_message("s0", made)).changed
        # An update that is NULL is told as the time of arrival.
        with pytest.raises(WriteRefused) as refused:
            await writers.update_message("s0", "system", {"content": "x"}, expected_updated_at="2026-01-01T00:00:00Z")
        assert refused.value.details["updated_at"] == "2026-02-01T00:00:00Z"
        patch = {"content": "patched", "requests_input": True}
        await writers.update_message("s0", "nothing", patch, expected_updated_at="2026-02-02T00:00:00Z")
        await writers.append("s0", "empty", 0, "first")
        await writers.append("s0", "empty", 5, ", second")
    written = {row[0]: row[2:] for row in await source(odd)}
    assert written["made"] == ("made", "message", False)
    assert written["nothing"] == ("patched", "message", True)
    assert written["empty"] == ("first, second", "message", False)
