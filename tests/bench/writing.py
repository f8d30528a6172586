"""Writers of the source: plain SQL, as any program would write it."""

import time
from collections.abc import Sequence
from itertools import count

import asyncpg

MARK = "mark:"
"""Precedes the number of a commit in the content that it writes."""

AT = "at:"
"""Precedes a moment of the monotonic clock, which all processes of a machine share, in nanoseconds."""

CONTENT_BYTES = 1024

_UPDATE = "UPDATE task_session_messages SET content = $2, updated_at = clock_timestamp() WHERE id = $1"

_numbers = count(1)


def content(number: int) -> str:
    """1 KiB that names its commit."""
    return f"{MARK}{number} ".ljust(CONTENT_BYTES, "x")


class Writer:
    """Commits one changed message at a time, and notes when: the moment before COMMIT was sent."""

    def __init__(self, pool: asyncpg.Pool, messages: Sequence[str]) -> None:
        self._pool = pool
        self._messages = messages
        self.committed: dict[int, int] = {}
        """Nanoseconds of the monotonic clock, which all processes of a machine share, by the commit's number."""

    async def commit(self, place: int) -> None:
        """Changes the message at this place, round and round."""
        number = next(_numbers)
        async with self._pool.acquire() as connection:
            transaction = connection.transaction()
            await transaction.start()
            await connection.execute(_UPDATE, self._messages[place % len(self._messages)], content(number))
            self.committed[number] = time.monotonic_ns()
            await transaction.commit()


class TimedWriter:
    """Commits one changed message at a time, whose content tells when its statement was sent."""

    def __init__(self, pool: asyncpg.Pool, messages: Sequence[str], size: int) -> None:
        self._pool = pool
        self._messages = messages
        self._size = size

    async def commit(self, place: int) -> None:
        """Changes the message at this place, round and round."""
        async with self._pool.acquire() as connection:
            text = f"{AT}{time.monotonic_ns()} ".ljust(self._size, "x")
            await connection.execute(_UPDATE, self._messages[place % len(self._messages)], text)


async def seed(pool: asyncpg.Pool, prefix: str, sessions: int, messages: int) -> None:
    """Makes sessions `prefix-1` and so on, with agent messages `prefix-1-1` and so on of 1 KiB each."""
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("INSERT INTO workspaces (id) VALUES ('bench') ON CONFLICT DO NOTHING")
        await connection.execute(
            "INSERT INTO tasks (id, workspace_id) VALUES ('bench', 'bench') ON CONFLICT DO NOTHING"
        )
        await connection.execute(
            "INSERT INTO task_sessions (id, task_id) SELECT $1 || '-' || s, 'bench' FROM generate_series(1, $2::int) s",
            prefix,
            sessions,
        )
        await connection.execute(
            """
            INSERT INTO task_session_messages
                (id, task_session_id, task_id, author_type, content, created_at, updated_at)
            SELECT $1 || '-' || s || '-' || m, $1 || '-' || s, 'bench', 'agent', repeat('x', $4),
                   timestamptz '2026-01-01' + make_interval(secs => m), timestamptz '2026-01-01'
              FROM generate_series(1, $2::int) s, generate_series(1, $3::int) m
            """,
            prefix,
            sessions,
            messages,
            CONTENT_BYTES,
        )
