"""Plain single statements from two writers, every pair of them: no deadlock, contiguous revisions, contiguous ordinals.

The deletion of a task is no such pair with a statement that touches several of its sessions: a move between them, or
messages over sessions. The deletion takes the sessions in the order in which the cascade finds them, the foreign key
checks of the other in that of its rows, with or without triggers.
"""

import asyncio
import contextlib
import itertools
import re
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

pytestmark = pytest.mark.usefixtures("source")

Other = Callable[[], Awaitable[Any]]

RESTORE = """
INSERT INTO tasks (id, workspace_id) VALUES ('t', 'w'), ('t2', 'w') ON CONFLICT DO NOTHING;
INSERT INTO task_sessions (id, task_id) VALUES ('a', 't'), ('b', 't'), ('c', 't2') ON CONFLICT DO NOTHING;
INSERT INTO task_session_messages (id, task_session_id, task_id, author_type)
SELECT s || n, s, 't', CASE n % 2 WHEN 0 THEN 'user' ELSE 'agent' END
  FROM unnest(ARRAY['a', 'b', 'c']) s, generate_series(1, 4) n ORDER BY s, n ON CONFLICT DO NOTHING;
INSERT INTO task_session_turns (id, task_session_id, task_id)
SELECT 'turn-' || s, s, 't' FROM unnest(ARRAY['a', 'b', 'c']) s ON CONFLICT DO NOTHING;
"""

MESSAGE = "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type)"
STATEMENTS = {
    "user message": f"{MESSAGE} VALUES (gen_random_uuid(), 'a', 't', 'user')",
    "agent message": f"{MESSAGE} VALUES (gen_random_uuid(), 'a', 't', 'agent')",
    "messages over sessions": f"{MESSAGE} SELECT gen_random_uuid(), s, 't', 'user' FROM unnest(ARRAY['a', 'b', 'c']) s",
    "agent messages in any order": f"{MESSAGE} SELECT gen_random_uuid(), s, 't', 'agent' "
    "FROM unnest(ARRAY['c', 'a', 'b']) s ORDER BY random()",
    "bulk update": "UPDATE task_session_messages SET content = 'x' WHERE id IN (SELECT id FROM task_session_messages "
    "ORDER BY id FOR NO KEY UPDATE)",
    "update": "UPDATE task_session_messages SET content = 'y' WHERE id = 'a1'",
    "to prompt": "UPDATE task_session_messages SET author_type = 'user' WHERE id = 'a1'",
    "move": "UPDATE task_session_messages SET task_session_id = 'c' WHERE id = 'a2'",
    "delete message": "DELETE FROM task_session_messages WHERE id = 'a3'",
    "delete session": "DELETE FROM task_sessions WHERE id = 'a'",
    "delete other session": "DELETE FROM task_sessions WHERE id = 'c'",
    "delete task": "DELETE FROM tasks WHERE id = 't'",
    "start turn": "INSERT INTO task_session_turns (id, task_session_id, task_id) VALUES (gen_random_uuid(), 'a', 't')",
    "complete turn": "UPDATE task_session_turns SET completed_at = clock_timestamp() WHERE id = 'turn-a'",
    "truncate messages": "TRUNCATE task_session_messages",
    "create session": "INSERT INTO task_sessions (id, task_id) VALUES (gen_random_uuid(), 't')",
    "create the same session": "INSERT INTO task_sessions (id, task_id) VALUES ('a', 't') ON CONFLICT DO NOTHING",
}
ROUNDS = 3

OF_SEVERAL_SESSIONS = frozenset({"messages over sessions", "agent messages in any order"})
"""Of task `t`, that is: the move leads out of it."""

CHANGE = re.compile(
    r"table public\.conversation_session_revisions: (?P<kind>INSERT|UPDATE|DELETE): (?:old-key: )?"
    r"session_id\[text\]:'(?P<session>[^']*)' revision\[bigint\]:(?P<value>\d+)"
    r"(?: new-tuple: session_id\[text\]:'[^']*' revision\[bigint\]:(?P<next>\d+))?"
)


def check_history(log: list[str]) -> None:
    """Every interval begins where the last one ended; a life begins above the life before it (R1)."""
    reached: dict[str, int] = {}
    alive: set[str] = set()
    for match in filter(None, map(CHANGE.match, log)):
        session, value = match["session"], int(match["value"])
        match match["kind"]:
            case "INSERT":
                assert session not in alive
                assert value >= reached.get(session, 1)
                alive.add(session)
                reached[session] = value
            case "UPDATE":
                assert value == reached.get(session, value)
                assert int(match["next"]) == value + 1
                alive.add(session)
                reached[session] = value + 1
            case _:
                assert value == reached.get(session, value)
                alive.discard(session)
                reached[session] = value + 1
    assert reached


async def attempt(writer: Any, statement: str) -> None:
    """Runs it; a session that is already gone is an answer, a deadlock is not."""
    with contextlib.suppress(asyncpg.ForeignKeyViolationError):
        await writer.execute(statement)


@pytest.mark.parametrize("first", STATEMENTS)
async def test_no_pair_of_statements_deadlocks(source: Any, other: Other, first: str) -> None:
    left, right = await other(), await other()
    names = list(STATEMENTS)
    slot = "s_" + (await source.fetchval("SELECT md5(current_database())"))[:20]
    await source.fetchval("SELECT pg_create_logical_replication_slot($1, 'test_decoding', true)", slot)
    await source.execute(RESTORE)
    await source.execute(STATEMENTS["agent messages in any order"])
    for second, _ in itertools.product(names[names.index(first) :], range(ROUNDS)):
        if first in OF_SEVERAL_SESSIONS and second == "delete task":
            continue
        await source.execute(RESTORE)
        await asyncio.gather(attempt(left, STATEMENTS[first]), attempt(right, STATEMENTS[second]))
    log = await source.fetch("SELECT data FROM pg_logical_slot_get_changes($1, NULL, NULL)", slot)
    check_history([row["data"] for row in log])


@pytest.mark.parametrize("statement", ["user message", "messages over sessions", "start turn", "move"])
async def test_a_writer_waits_for_a_deletion_halfway_without_holding_it_up(
    source: Any, other: Other, until_blocked: Any, statement: str
) -> None:
    """The deletion of a session stands between its session row and its counter; the writer wants both."""
    await source.execute(RESTORE)
    writer, deleter = await other(), await other()
    pids = [await each.fetchval("SELECT pg_backend_pid()") for each in (writer, deleter)]
    target = "c" if statement == "move" else "a"
    hold = source.connection.transaction()
    await hold.start()
    await source.execute("SELECT 1 FROM task_session_messages WHERE id = $1 FOR KEY SHARE", f"{target}1")
    deletion = asyncio.create_task(deleter.execute("DELETE FROM task_sessions WHERE id = $1", target))
    await until_blocked(source.connection, pids[1])
    writing = asyncio.create_task(writer.execute(STATEMENTS[statement]))
    await until_blocked(source.connection, pids[0])
    await hold.rollback()
    await deletion
    with pytest.raises(asyncpg.ForeignKeyViolationError):
        await writing
    assert await source.revision(target) is None


async def test_bulk_statements_in_any_order_take_sessions_in_theirs(source: Any, other: Other) -> None:
    await source.execute("INSERT INTO task_sessions (id, task_id) SELECT 's' || n, 't' FROM generate_series(1, 40) n")
    writers = [await other() for _ in range(4)]

    async def write(writer: Any) -> None:
        for _ in range(15):
            await writer.execute(
                f"{MESSAGE} SELECT gen_random_uuid(), id, 't', 'agent' FROM task_sessions ORDER BY random()"
            )

    await asyncio.gather(*map(write, writers))
    assert await source.fetch("SELECT DISTINCT revision FROM conversation_session_revisions") == [(61,)]
