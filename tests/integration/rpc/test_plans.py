"""What Host RPC lists is a walk along an index, whatever is asked for and whatever the statistics say."""

import re
from collections.abc import AsyncIterator, Iterator
from itertools import product

import asyncpg
import pytest

from services.reader.host_messages import query_of
from services.reader.pools import Sources
from shared.contracts.reads import MAX_PAGE_BYTES, HostMessages, Keyset
from shared.times import format_microseconds, microseconds
from tests.integration.reader.people import PEOPLE, open_sources

ROWS = 100_000
LIMIT = 20
MOST_BUFFERS = 500
"""Pages of the database that one page of 20 rows may touch for each value; reading a task would take thousands."""

# One task of nearly everything among many of nothing, which misleads a planner; one type that is rare.
FILL = f"""
SET session_replication_role = replica;
INSERT INTO task_sessions (id, task_id) SELECT 'small' || n, 'task' FROM generate_series(1, 500) n;
INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, type, content, created_at, updated_at)
SELECT 'm' || lpad(n::text, 6, '0'), 's', 'task', 'agent', CASE WHEN n % 20000 = 0 THEN 'rare' ELSE 'message' END,
       repeat('x', 100), '2026-01-01'::timestamptz + n * interval '1 s', now() FROM generate_series(1, {ROWS}) n;
INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content, created_at, updated_at)
SELECT 'o' || n, 'small' || n, 'other' || n, 'agent', 'x', '2026-01-02', now() FROM generate_series(1, 500) n;
RESET session_replication_role;
"""
SINCE, UNTIL = microseconds("2026-01-01T13:00:00Z"), microseconds("2026-01-02T20:00:00Z")
AFTER = Keyset(time=microseconds("2026-01-01T13:53:20Z"), id="m050000")
LEADING: list[dict[str, tuple[str, ...]]] = [
    {},
    {"session_ids": ("s",)},
    {"session_ids": ("s", "small1", "absent")},
    {"task_ids": ("task",)},
    {"task_ids": ("task", "other1", "absent")},
    {"task_ids": ("absent",)},
    {"types": ("rare",)},
    {"types": ("rare", "absent")},
    {"types": ("absent",)},
    {"types": ("message",)},
    {"session_ids": ("s",), "task_ids": ("task",), "types": ("message",)},
    {"task_ids": ("task", "other1"), "types": ("message",)},
]


@pytest.fixture
async def sources(database_url: str) -> AsyncIterator[Sources]:
    connection = await asyncpg.connect(database_url)
    await connection.execute(PEOPLE)
    await connection.execute(FILL)
    await connection.close()
    async with open_sources(database_url) as opened:
        yield opened


def reads() -> Iterator[HostMessages]:
    for leading, since, until, after in product(LEADING, (None, SINCE), (None, UNTIL), (None, AFTER)):
        yield HostMessages(limit=LIMIT, since=since, until=until, after=after, **leading)


def index_of(read: HostMessages) -> str:
    """The one index in whose order the walk is."""
    if read.session_ids:
        return "task_session_messages_keyset"
    if read.task_ids:
        return "task_session_messages_task_keyset"
    return "task_session_messages_type_keyset" if read.types else "task_session_messages_host_keyset"


def literal(value: object) -> str:
    if isinstance(value, list):
        return f"ARRAY[{', '.join(map(literal, value))}]"
    if value in {SINCE, UNTIL, AFTER.time}:
        assert isinstance(value, int)
        return f"'{format_microseconds(value)}'"
    return str(value) if isinstance(value, int) else f"'{value}'"


@pytest.mark.parametrize("analysed", [False, True])
async def test_no_list_sorts_or_reads_what_is_not_asked_for(
    database_url: str, sources: Sources, analysed: bool
) -> None:
    if analysed:
        connection = await asyncpg.connect(database_url)
        await connection.execute("ANALYZE")
        await connection.close()
    async with sources.primary.acquire() as connection:
        for read in reads():
            query = query_of(read, MAX_PAGE_BYTES)
            await connection.execute(f"PREPARE page AS {query.statement}")
            values = ", ".join(literal(value) for value in query.parameters)
            lines = await connection.fetch(f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) EXECUTE page ({values})")
            await connection.execute("DEALLOCATE page")
            plan = "\n".join(line[0] for line in lines)
            leading = next((len(set(each)) for each in (read.session_ids, read.task_ids, read.types) if each), 1)
            walked = set(re.findall(r"Scan using (\w+) on task_session_messages m +\(", plan))
            assert walked == {index_of(read)}, plan
            assert not re.search(r"Seq Scan on task_session|Bitmap|Hash|Merge", plan), plan
            touched = re.search(r"Buffers: shared hit=(\d+)(?: read=(\d+))?", plan)
            assert touched is not None
            assert sum(int(count or 0) for count in touched.groups()) <= MOST_BUFFERS * leading, plan
            removed = re.search(r"Rows Removed by Filter: (\d+)", plan)
            assert removed is None or int(removed[1]) <= LIMIT * 10, plan
            walks = [int(rows) for rows in re.findall(r"(?:Index|Only) Scan.*actual rows=(\d+)", plan)]
            assert max(walks) <= LIMIT + 1, plan
