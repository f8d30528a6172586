"""Pages of the application's own tables, with columns that are NULL there, times without a zone and tasks unknown."""

import asyncpg
import pytest

from services.revision.schema.migrate import migrate
from shared.contracts.reads import MessagesAnswer, MessagesPage, TurnsAnswer, TurnsPage
from shared.times import format_microseconds
from tests.integration.reader.people import UNSCOPED, Reading, open_sources
from tests.support.kandev import FILL, SCHEMA

EXPECTED = """
SELECT id, task_id, coalesce(author_id, '') AS author_id, coalesce(requests_input, false) AS requests_input, prompt_seq,
       (extract(epoch FROM coalesce(updated_at, created_at)) * 1000000)::bigint AS updated
  FROM task_session_messages WHERE task_session_id = 's0' ORDER BY created_at
"""


@pytest.mark.parametrize("task", [None, "t"])
async def test_every_row_is_told(empty_database_url: str, task: str | None) -> None:
    connection = await asyncpg.connect(empty_database_url)
    await connection.execute(SCHEMA + FILL.format(sessions=2, messages=60))
    await connection.execute(
        "UPDATE task_session_messages SET author_id = NULL, requests_input = NULL WHERE id IN ('m2', 'm4')"
    )
    await migrate(connection)
    stored = [row for row in await connection.fetch(EXPECTED) if task is None or row["task_id"] == task]
    async with open_sources(empty_database_url) as sources:
        reader = Reading(sources)
        page = await reader.answer(MessagesPage(identity=UNSCOPED, session_id="s0", task_id=task, limit=None))
        turns = await reader.answer(TurnsPage(identity=UNSCOPED, session_id="s0"))
    assert isinstance(page, MessagesAnswer)
    assert isinstance(turns, TurnsAnswer)
    told = [
        (row.id, row.task_id, row.author_id, row.requests_input, row.prompt_seq, row.updated_at) for row in page.rows
    ]
    assert told == [(*tuple(row)[:5], format_microseconds(row["updated"])) for row in stored]
    assert [(turn.id, turn.task_id) for turn in turns.rows] == [("turn0", None)]
    await connection.close()
