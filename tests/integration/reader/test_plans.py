"""In a long session every page is a walk along an index, whatever the statistics say."""

import re
from collections.abc import Iterator
from itertools import product

import asyncpg
import pytest

from services.reader.pages import query_of
from services.reader.pools import Sources
from shared.contracts.reads import After, Around, Before, Keyset, MessagesPage, TurnsPage
from shared.contracts.rows import AuthorType
from shared.times import format_microseconds, microseconds
from tests.integration.reader.people import OWNER

ROWS = 100_000
LIMIT = 20
MOST_BUFFERS = 400
"""Pages of the database that one page of 20 rows may touch; reading the session would take thousands."""

# The session of 100,000 among many of a few rows: the average session is small, which misleads a planner.
FILL = f"""
SET session_replication_role = replica;
INSERT INTO task_sessions (id, task_id) SELECT 'small' || n, 'task' FROM generate_series(1, 2000) n;
INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content, created_at, updated_at)
SELECT 'm' || lpad(n::text, 6, '0'), 's', 'task', CASE n % 10 WHEN 0 THEN 'user' ELSE 'agent' END, repeat('x', 100),
       '2026-01-01'::timestamptz + n * interval '1 s', now() FROM generate_series(1, {ROWS}) n;
INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content, created_at, updated_at)
SELECT 'o' || n, 'small' || n, 'task', 'agent', 'x', '2026-01-01', now() FROM generate_series(1, 2000) n;
INSERT INTO task_session_turns (id, task_session_id, task_id, started_at)
SELECT 'm' || lpad(n::text, 6, '0'), 's', 'task', '2026-01-01'::timestamptz + n * interval '1 s'
  FROM generate_series(1, {ROWS}) n;
INSERT INTO task_session_turns (id, task_session_id, task_id) SELECT 'o' || n, 'small' || n, 'task'
  FROM generate_series(1, 2000) n;
RESET session_replication_role;
"""
MIDDLE = Keyset(time=microseconds("2026-01-01T13:53:20Z"), id="m050000")
POSITIONS = [None, Before(row=MIDDLE), After(row=MIDDLE), Before(row="m050000"), After(row="m050000")]
AUTHORS: list[tuple[AuthorType, ...]] = [(), ("user",), ("agent",)]


def pages() -> Iterator[MessagesPage | TurnsPage]:
    for position, sort, task in product(POSITIONS, ("asc", "desc"), (None, "task")):
        for authors in AUTHORS:
            yield MessagesPage(
                identity=OWNER,
                session_id="s",
                sort="asc" if sort == "asc" else "desc",
                authors=authors,
                task_id=task,
                position=position,
            )
        yield TurnsPage(
            identity=OWNER,
            session_id="s",
            sort="asc" if sort == "asc" else "desc",
            limit=LIMIT,
            task_id=task,
            position=position,
        )
    for authors in AUTHORS:
        yield MessagesPage(identity=OWNER, session_id="s", authors=authors, position=Around(row="m050000"))


def literal(value: object) -> str:
    if value == MIDDLE.time:
        return f"'{format_microseconds(MIDDLE.time)}'"
    return str(value) if isinstance(value, int) else f"'{value}'"


@pytest.mark.parametrize("analysed", [False, True])
async def test_no_page_sorts_or_reads_the_session(db: asyncpg.Connection, sources: Sources, analysed: bool) -> None:
    await db.execute(FILL)
    if analysed:
        await db.execute("ANALYZE")
    async with sources.primary.acquire() as connection:
        for page in pages():
            query = query_of(page)
            # As prepared, since that is the plan which serves every call.
            await connection.execute(f"PREPARE page AS {query.statement}")
            values = ", ".join(literal(value) for value in query.parameters)
            lines = await connection.fetch(f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) EXECUTE page ({values})")
            await connection.execute("DEALLOCATE page")
            plan = "\n".join(line[0] for line in lines)
            assert "($1)" in plan or "= $1" in plan, plan
            assert "Sort" not in plan, plan
            assert not re.search(r"Seq Scan on task_session|Bitmap", plan), plan
            touched = re.search(r"Buffers: shared hit=(\d+)(?: read=(\d+))?", plan)
            assert touched is not None
            assert sum(int(count or 0) for count in touched.groups()) <= MOST_BUFFERS, plan
            removed = re.search(r"Rows Removed by Filter: (\d+)", plan)
            assert removed is None or int(removed[1]) <= LIMIT * 10, plan
