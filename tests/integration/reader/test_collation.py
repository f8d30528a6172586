"""Ids are ordered by their bytes, whatever collation the database has: clients compute the order by themselves.

The order is shown on the database that the tests run on, which may well have a plain collation by default; therefore
statements and indexes are also looked at.
"""

import re

import asyncpg
import pytest

from services.reader.pages import query_of
from shared.contracts.identity import LOCAL_USER
from shared.contracts.reads import After, Before, MessagesAnswer, MessagesPage, TurnsAnswer, TurnsPage
from tests.integration.reader.people import Reading

IDS = ("B", "a", "Z", "_", "aa", "é", "b")
TIMES = {MessagesPage: "created_at", TurnsPage: "started_at"}
TIED = "2026-01-01 00:00:00+00"


@pytest.fixture
async def tied(db: asyncpg.Connection) -> None:
    """A session in which every message and turn has the same time."""
    task_id = await db.fetchval(
        "INSERT INTO task_sessions (id, task_id) SELECT 'tied', min(id) FROM tasks RETURNING task_id"
    )
    messages = "task_session_messages (id, task_session_id, task_id, created_at, author_type)"
    turns = "task_session_turns (id, task_session_id, task_id, started_at)"
    for name in IDS:
        values = (name, task_id, TIED)
        await db.execute(f"INSERT INTO {messages} VALUES ($1, 'tied', $2, $3::text::timestamptz, 'agent')", *values)
        await db.execute(f"INSERT INTO {turns} VALUES ($1, 'tied', $2, $3::text::timestamptz)", *values)


async def messages(reader: Reading, page: MessagesPage) -> list[str]:
    """Ids of the page's messages."""
    answer = await reader.answer(page)
    assert isinstance(answer, MessagesAnswer)
    return [row.id for row in answer.rows]


@pytest.mark.usefixtures("tied")
async def test_messages_of_one_time_come_in_the_order_of_their_bytes(reader: Reading) -> None:
    page = MessagesPage(identity=LOCAL_USER, session_id="tied", limit=3)
    seen = await messages(reader, page)
    while len(found := await messages(reader, page.model_copy(update={"position": After(row=seen[-1])}))) > 0:
        seen += found
    assert seen == sorted(IDS)


@pytest.mark.usefixtures("tied")
async def test_paging_back_meets_every_message_once(reader: Reading) -> None:
    page = MessagesPage(identity=LOCAL_USER, session_id="tied", limit=2, sort="desc")
    seen = await messages(reader, page)
    while len(found := await messages(reader, page.model_copy(update={"position": Before(row=seen[-1])}))) > 0:
        seen += found
    assert seen == sorted(IDS, reverse=True)


@pytest.mark.usefixtures("tied")
async def test_turns_of_one_time_come_in_the_order_of_their_bytes(reader: Reading) -> None:
    answer = await reader.answer(TurnsPage(identity=LOCAL_USER, session_id="tied"))
    assert isinstance(answer, TurnsAnswer)
    assert [row.id for row in answer.rows] == sorted(IDS)


async def test_every_keyset_index_is_in_the_order_of_bytes(db: asyncpg.Connection) -> None:
    found = await db.fetch(
        "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' AND indexname LIKE '%keyset'"
    )
    assert len(found) == 6
    assert [row["indexname"] for row in found if 'id COLLATE "C"' not in row["indexdef"]] == []


@pytest.mark.parametrize("read", [MessagesPage, TurnsPage])
@pytest.mark.parametrize("position", [None, Before(row="m"), After(row="m")])
def test_no_statement_orders_or_compares_ids_by_the_databases_collation(
    read: type[MessagesPage | TurnsPage], position: Before | After | None
) -> None:
    statement = query_of(read(identity=LOCAL_USER, session_id="tied", position=position)).statement
    ordered = [line for line in statement.splitlines() if "ORDER BY" in line or f".{TIMES[read]}, m.id" in line]
    assert len(ordered) == (2 if position is None else 3)
    assert [line for line in ordered if re.search(r"\b[mp]\.id\b(?! COLLATE \"C\")", line)] == []
