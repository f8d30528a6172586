"""A migrated database with a little conversation in it, and as many connections as a test wants."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Protocol

import asyncpg
import pytest
import pytest_asyncio

from tests.support.kandev import FILL, SCHEMA

Connect = Callable[[], Awaitable[asyncpg.Connection]]


class UntilBlocked(Protocol):
    """See the fixture of that name."""

    async def __call__(self, observer: asyncpg.Connection, pid: int, blocked: bool = True) -> None: ...


SEED = """
INSERT INTO workspaces (id) VALUES ('w');
INSERT INTO tasks (id, workspace_id) VALUES ('t', 'w');
INSERT INTO task_sessions (id, task_id) VALUES ('a', 't'), ('b', 't');
"""


@pytest_asyncio.fixture
async def kandev(empty_database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """The application's database with rows; a superuser's connection."""
    connection = await asyncpg.connect(empty_database_url)
    for statements in (SCHEMA, FILL.format(sessions=5, messages=100)):
        await connection.execute(statements)
    yield connection
    await connection.close()


class Source:
    """The tables as a plain SQL writer uses them, and what the tests ask about them."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.connection = connection
        self.execute = connection.execute
        self.fetch = connection.fetch
        self.fetchval = connection.fetchval

    async def say(self, id_: str, session: str = "a", author: str = "user", **columns: object) -> asyncpg.Record:
        """Inserts a message and returns the row as it is stored."""
        values = {"id": id_, "task_session_id": session, "task_id": "t", "author_type": author, **columns}
        places = ", ".join(f"${n}" for n in range(1, len(values) + 1))
        return await self.connection.fetchrow(
            f"INSERT INTO task_session_messages ({', '.join(values)}) VALUES ({places}) RETURNING *", *values.values()
        )

    async def revision(self, session: str = "a") -> int | None:
        """The session's revision; None without a row."""
        query = "SELECT revision FROM conversation_session_revisions WHERE session_id = $1"
        revision: int | None = await self.fetchval(query, session)
        return revision

    async def epoch(self) -> str:
        """The current epoch."""
        return str(await self.fetchval("SELECT epoch FROM conversation.epoch"))

    async def floor(self) -> int:
        """Where the next session starts."""
        return int(await self.fetchval("SELECT last_value FROM conversation.revision_floor"))

    async def ordinals(self, session: str = "a") -> list[tuple[str, int]]:
        """(message, ordinal) of the session's prompts, in order of time."""
        rows = await self.fetch(
            "SELECT id, prompt_seq FROM task_session_messages WHERE task_session_id = $1 AND author_type = 'user' "
            "ORDER BY created_at, id",
            session,
        )
        return [(row["id"], row["prompt_seq"]) for row in rows]


@pytest_asyncio.fixture
async def connect(database_url: str) -> AsyncIterator[Connect]:
    """Opens further connections to the test's database; all are closed at its end."""
    async with AsyncExitStack() as stack:

        async def opened() -> asyncpg.Connection:
            connection = await asyncpg.connect(database_url)
            stack.push_async_callback(connection.close)
            return connection

        yield opened


@pytest_asyncio.fixture
async def source(connect: Connect) -> Source:
    """Two sessions, `a` and `b`, in task `t` of workspace `w`."""
    connection = await connect()
    await connection.execute(SEED)
    return Source(connection)


@pytest.fixture
def other(connect: Connect) -> Callable[[], Awaitable[Source]]:
    """Another writer on a connection of its own."""

    async def writer() -> Source:
        return Source(await connect())

    return writer


@pytest.fixture
def until_blocked() -> UntilBlocked:
    """Asks a connection until the process `pid` waits for a lock, or no longer does."""

    async def wait(observer: asyncpg.Connection, pid: int, blocked: bool = True) -> None:
        query = "SELECT cardinality(pg_blocking_pids($1)) > 0"
        async with asyncio.timeout(10):
            while await observer.fetchval(query, pid) is not blocked:
                pass

    return wait
