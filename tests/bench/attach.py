"""The application's own database, large and written to: how long attaching and leaving take, and whom they hold up."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from services.revision.schema.detach import detach
from services.revision.schema.migrate import migrate
from tests.bench.figures import Figure, Target
from tests.bench.ground import WRITERS, Ground
from tests.support.kandev import FILL, SCHEMA, rows_of, schema_of

MESSAGES_EACH = 100
"""Messages of each session."""

QUIET_SECONDS = 5.0
"""How long writers are watched before anything is done: what this machine makes them wait by itself."""

# Each puts back what it changes, so that the rows can be compared afterwards.
_UPDATE = "UPDATE task_session_messages SET content = content WHERE id = $1"
_TURN = "UPDATE task_session_turns SET completed_at = completed_at WHERE id = $1"
_SESSION = "UPDATE task_sessions SET state = state WHERE id = $1"
_COME_AND_GO = """
WITH gone AS (DELETE FROM task_session_messages WHERE id = $1)
INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content, created_at)
VALUES ($2, $3, 't', 'agent', 'a message that comes and goes', timezone('UTC', clock_timestamp()))
"""
_LAST = "DELETE FROM task_session_messages WHERE id LIKE 'passing-%'"


@dataclass
class _Watch:
    """What the writers met. `longest`: seconds of the slowest statement; `count`: statements in all."""

    longest: float = 0.0
    count: int = 0
    _stop: asyncio.Event = field(default_factory=asyncio.Event)

    def stop(self) -> None:
        """Lets the writers end."""
        self._stop.set()

    async def write(self, url: str, number: int, sessions: int) -> None:
        """Writes, one statement after the other, until it is stopped."""
        connection = await asyncpg.connect(url)
        place, passing = number, ""
        while not self._stop.is_set():
            place = (place + 7919) % sessions
            coming = f"passing-{number}-{self.count}"
            for statement, arguments in (
                (_UPDATE, (f"m{place}",)),
                (_COME_AND_GO, (passing, coming, f"s{place}")),
                (_TURN, (f"turn{place}",)),
                (_SESSION, (f"s{place}",)),
            ):
                began = time.perf_counter()
                await connection.execute(statement, *arguments)
                self.longest = max(self.longest, time.perf_counter() - began)
                self.count += 1
            passing = coming
        await connection.close()


async def measure(ground: Ground, messages: int) -> Sequence[Figure]:
    """Attaches and leaves one database under writers, and compares it with what it was."""
    sessions = max(1, messages // MESSAGES_EACH)
    url = await _database(ground.database)
    connection = await asyncpg.connect(url)
    try:
        print(f"attach: filling {messages:,} messages of {sessions:,} sessions", file=sys.stderr)
        await connection.execute(SCHEMA + FILL.format(sessions=sessions, messages=messages))
        await connection.execute("VACUUM ANALYZE")
        schema, rows = await schema_of(url), await rows_of(connection)
        async with _watched(url, sessions) as quiet:
            await asyncio.sleep(QUIET_SECONDS)
        async with _watched(url, sessions) as attaching:
            attached = await _timed(migrate(connection))
        async with _watched(url, sessions) as leaving:
            left = await _timed(detach(connection))
        await connection.execute(_LAST)
        differing = [table for table, checksum in (await rows_of(connection)).items() if rows[table] != checksum]
        changed = set(schema.splitlines()) ^ set((await schema_of(url)).splitlines())
    finally:
        await connection.close()
    what = f"{messages:,} messages of {sessions:,} sessions"
    return (
        Figure(f"attaching a database of {what}", attached, "s", target=Target("at most", 60)),
        _held_up("- meanwhile", attaching, quiet),
        Figure("leaving it again", left, "s"),
        _held_up("- meanwhile", leaving, quiet),
        Figure("- lines of its schema's dump that differ then", len(changed), "", target=Target("at most", 0)),
        Figure("- tables with a row that differs", len(differing), "", target=Target("at most", 0)),
    )


def _held_up(when: str, watch: _Watch, quiet: _Watch) -> Figure:
    return Figure(
        f"{when} the slowest of {watch.count:,} statements of {WRITERS} writers (quiet: {quiet.longest * 1000:.0f} ms)",
        watch.longest,
        "s",
        target=Target("at most", 1),
    )


@asynccontextmanager
async def _watched(url: str, sessions: int) -> AsyncIterator[_Watch]:
    watch = _Watch()
    async with asyncio.TaskGroup() as writers:
        for number in range(WRITERS):
            writers.create_task(watch.write(url, number, sessions))
        try:
            yield watch
        finally:
            watch.stop()


async def _timed(work: Awaitable[object]) -> float:
    began = time.perf_counter()
    await work
    return time.perf_counter() - began


async def _database(neighbour: str) -> str:
    """Address of a new, empty database on the same server."""
    connection = await asyncpg.connect(neighbour)
    try:
        await connection.execute('CREATE DATABASE "attach" TEMPLATE template0')
    finally:
        await connection.close()
    return urlunsplit(urlsplit(neighbour)._replace(path="/attach"))
