"""Every pair of commands at once, and each beside plain SQL: nobody sees a deadlock, and every answer is typed."""

import asyncio
import itertools
from collections.abc import Callable, Coroutine

import asyncpg
import pytest

from shared.contracts.commands import (
    AppendMessage,
    Command,
    CommandResult,
    CompleteTurn,
    CreateMessage,
    CreateSession,
    DeleteMessage,
    DeleteSession,
    DeleteTask,
    StartTurn,
    UpdateMessage,
)
from shared.contracts.errors import RequestFailed
from shared.contracts.identity import LOCAL_USER
from tests.integration.commands.conftest import Source

ROUNDS = 3
"""Of each pair. A pair that locks crosswise meets itself within a few: its two sides start at the same moment."""

ALLOWED = {"not_found", "conflict"}

Made = Callable[[int], Command]

COMMANDS: dict[str, Made] = {
    "create prompt": lambda n: CreateMessage(message_id=f"p{n}", session_id="s", author_type="user", content="hi"),
    "create reply": lambda n: CreateMessage(message_id=f"r{n}", session_id="s", author_type="agent", content="hi"),
    "append": lambda n: AppendMessage(message_id="m1", session_id="s", offset=5, text=f"{n}"),
    "update": lambda n: UpdateMessage(message_id="m2", session_id="s", content=f"{n}", expected_revision=n),
    "delete message": lambda n: DeleteMessage(message_id="m3", session_id="s"),
    "start turn": lambda n: StartTurn(turn_id=f"u{n}", session_id="s"),
    "complete turn": lambda n: CompleteTurn(turn_id="u", session_id="s"),
    "create session": lambda n: CreateSession(session_id=f"s{n}", task_id="t"),
    "delete session": lambda n: DeleteSession(session_id="s"),
    "delete task": lambda n: DeleteTask(task_id="t"),
}

PLAIN = {
    "bulk update": "UPDATE task_session_messages SET content = content || '.'",
    "bulk update, backwards": """
        UPDATE task_session_messages m SET content = 'x'
          FROM (SELECT id FROM task_session_messages ORDER BY id DESC FOR UPDATE) o WHERE o.id = m.id
    """,
    "move": "UPDATE task_session_messages SET task_session_id = 'z' WHERE id IN ('m1', 'm2')",
    "delete messages": "DELETE FROM task_session_messages",
    "delete session": "DELETE FROM task_sessions WHERE id = 's'",
    "delete task": "DELETE FROM tasks WHERE id = 't'",
    "truncate messages": "TRUNCATE task_session_messages",
    "truncate sessions": "TRUNCATE task_sessions CASCADE",
    "touch the session": "UPDATE task_sessions SET state = 'RUNNING', updated_at = now() WHERE id = 's'",
}

STAGE = """
DELETE FROM tasks WHERE id = 't';
INSERT INTO tasks (id, workspace_id) VALUES ('t', 'w'), ('y', 'w') ON CONFLICT DO NOTHING;
INSERT INTO task_sessions (id, task_id) VALUES ('s', 't'), ('z', 'y') ON CONFLICT DO NOTHING;
DELETE FROM task_session_messages;
INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content)
SELECT 'm' || n, 's', 't', CASE n % 2 WHEN 0 THEN 'user' ELSE 'agent' END, 'hello' FROM generate_series(1, 9) n;
INSERT INTO task_session_turns (id, task_session_id, task_id) VALUES ('u', 's', 't');
"""


async def staged(source: Source) -> int:
    await source.pool.execute(STAGE)
    return await source.revision()


async def outcome(source: Source, command: Command) -> str:
    try:
        return (await source.do(command)).kind
    except RequestFailed as failed:
        return failed.failure.code


async def together(*work: Coroutine[object, object, str]) -> list[str]:
    async with asyncio.TaskGroup() as tasks:
        begun = [tasks.create_task(one) for one in work]
    return [task.result() for task in begun]


@pytest.mark.parametrize("first", list(COMMANDS))
async def test_commands_against_each_other(source: Source, first: str) -> None:
    numbers = itertools.count(10)
    for second in list(COMMANDS)[list(COMMANDS).index(first) :]:
        for _ in range(ROUNDS):
            revision = await staged(source)
            made = [
                command.model_copy(update={"expected_revision": revision})
                if command.kind == "update_message"
                else command
                for command in (COMMANDS[name](next(numbers)) for name in (first, second, first, second))
            ]
            found = await together(*(outcome(source, command) for command in made))
            assert set(found) <= {"done", *ALLOWED}, (first, second)


async def plainly(source: Source, statement: str) -> str:
    """Plain SQL may be a deadlock's victim: it has no one who tries again. Commands may not show one."""
    async with source.pool.acquire() as connection:
        try:
            await connection.execute(statement)
        except (asyncpg.DeadlockDetectedError, asyncpg.ForeignKeyViolationError):
            return "plain"
    return "plain"


@pytest.mark.parametrize("statement", list(PLAIN))
async def test_commands_against_plain_sql(source: Source, statement: str) -> None:
    numbers = itertools.count(10)
    for name, make in COMMANDS.items():
        for _ in range(ROUNDS):
            revision = await staged(source)
            command = make(next(numbers))
            if command.kind == "update_message":
                command = command.model_copy(update={"expected_revision": revision})
            again = make(next(numbers))
            found = await together(outcome(source, command), plainly(source, PLAIN[statement]), outcome(source, again))
            assert set(found) <= {"done", "plain", *ALLOWED}, (name, statement)


async def test_a_deadlock_is_one_more_attempt(source: Source) -> None:
    """The command holds the session and waits for a message; the other holds the message and deletes the session."""
    await staged(source)
    async with source.pool.acquire() as connection:
        await connection.execute("SET deadlock_timeout = '1min'")  # the command is to be the victim
        async with connection.transaction():
            await connection.execute("UPDATE task_session_messages SET content = 'other' WHERE id = 'm1'")
            command = asyncio.ensure_future(outcome(source, DeleteMessage(message_id="m1", session_id="s")))
            await somebody_waits(source)
            await connection.execute("DELETE FROM task_sessions WHERE id = 's'")
            assert not command.done()
    assert await command == "not_found"


async def somebody_waits(source: Source) -> None:
    """Returns once a statement waits for a lock in this database."""
    async with source.pool.acquire() as connection:
        while True:
            if await connection.fetchval(
                """SELECT EXISTS (SELECT FROM pg_stat_activity
                                   WHERE datname = current_database() AND wait_event_type = 'Lock')"""
            ):
                return


async def test_create_and_delete_by_many_keep_revisions_whole(source: Source) -> None:
    """Each answer's interval is its own: over one session's life they cover its revisions without overlap."""
    start = await source.revision()

    async def write(number: int) -> list[CommandResult]:
        made: list[Command] = [
            CreateMessage(message_id=f"a{number}", session_id="s", author_type="agent"),
            AppendMessage(message_id=f"a{number}", session_id="s", offset=0, text="text"),
            StartTurn(turn_id=f"u{number}", session_id="s"),
            CompleteTurn(turn_id=f"u{number}", session_id="s"),
            DeleteMessage(message_id=f"a{number}", session_id="s"),
        ]
        return [await source.boundary.execute(LOCAL_USER, one, asyncio.get_running_loop().time() + 20) for one in made]

    results = [result for many in await asyncio.gather(*map(write, range(12))) for result in many]
    assert sorted((result.base_revision, result.revision) for result in results) == [
        (revision, revision + 1) for revision in range(start, start + len(results))
    ]
