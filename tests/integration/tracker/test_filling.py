"""Large values that the log leaves out (T3): filled only from a row that the transaction itself wrote."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from services.revision.tracker.drafts import Transaction
from services.revision.tracker.filling import Filler
from tests.integration.tracker.log import Log, change_of, content_of, operation_of

LARGE = "(SELECT string_agg(md5(n::text), '') FROM generate_series(1, 3200) n)"
INSERT = (
    "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content) "
    f"VALUES ('m', 's1', 't', 'agent', {LARGE})"
)
MARK = "UPDATE task_session_messages SET metadata = '{\"done\": true}' WHERE id = 'm'"


@pytest.fixture
async def reader(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


async def marked(log: Log) -> Transaction:
    """A message of 100 kB of which another column was updated, as the log has it."""
    transaction = (await log.changes(INSERT, MARK))[1]
    assert operation_of(transaction, "s1", "m").needs_filling
    return transaction


async def test_a_large_message_is_whole_again(log: Log, reader: asyncpg.Connection) -> None:
    filled = await Filler(reader).fill(await marked(log))
    content = content_of(operation_of(filled, "s1", "m"))
    assert isinstance(content, bytes)
    assert content.decode() == await reader.fetchval("SELECT content FROM task_session_messages")
    assert len(content) == 102_400


async def test_a_value_from_the_same_transaction_needs_no_reading(log: Log) -> None:
    transaction = await log.change(f"BEGIN; {INSERT}; {MARK}; COMMIT")
    assert not operation_of(transaction, "s1", "m").needs_filling


@pytest.mark.parametrize(
    "later",
    [
        "UPDATE task_session_messages SET task_session_id = 's2' WHERE id = 'm'",
        "UPDATE task_session_messages SET content = 'other' WHERE id = 'm'",
        "DELETE FROM task_session_messages WHERE id = 'm'",
    ],
    ids=["moved", "changed", "deleted"],
)
async def test_a_row_that_another_transaction_wrote_is_not_used(
    log: Log, reader: asyncpg.Connection, later: str
) -> None:
    transaction = await marked(log)
    await log.writer.execute(later)
    filled = await Filler(reader).fill(transaction)
    change = change_of(filled, "s1")
    assert change.operations is None
    assert (change.base, change.revision) == (2, 3)


async def test_a_row_written_under_a_savepoint_is_not_used(log: Log, reader: asyncpg.Connection) -> None:
    transaction = (await log.changes(INSERT, f"BEGIN; SAVEPOINT p; {MARK}; RELEASE p; COMMIT"))[1]
    assert change_of(await Filler(reader).fill(transaction), "s1").operations is None


async def test_turns_are_filled_too(log: Log, reader: asyncpg.Connection) -> None:
    insert = (
        "INSERT INTO task_session_turns (id, task_session_id, task_id, metadata) "
        f"VALUES ('r', 's1', 't', json_build_object('k', {LARGE})::text)"
    )
    transaction = (await log.changes(insert, "UPDATE task_session_turns SET completed_at = now() WHERE id = 'r'"))[1]
    assert operation_of(transaction, "s1", "r").needs_filling
    assert not operation_of(await Filler(reader).fill(transaction), "s1", "r").needs_filling


async def test_a_commit_that_is_not_visible_yet_is_waited_for(log: Log, reader: asyncpg.Connection) -> None:
    """As a snapshot taken before the commit sees it; the transaction stands in the log all the same."""
    await log.writer.execute(INSERT)
    await log.since()
    old = reader.transaction(isolation="repeatable_read")
    await old.start()
    await reader.fetchval("SELECT count(*) FROM task_session_messages")
    transaction = await log.change(MARK)
    looked, committed = asyncio.Event(), asyncio.Event()

    class Announcing:
        """The reader, which tells that somebody looked, and waits before the second look."""

        async def fetch(self, query: str, *arguments: object) -> list[asyncpg.Record]:
            if looked.is_set():
                await committed.wait()
            found: list[asyncpg.Record] = await reader.fetch(query, *arguments)
            looked.set()
            return found

    filling = asyncio.ensure_future(Filler(Announcing()).fill(transaction))
    await looked.wait()
    await old.commit()
    committed.set()
    assert not operation_of(await filling, "s1", "m").needs_filling


async def test_a_commit_that_stays_invisible_makes_the_receipt_incomplete(log: Log, reader: asyncpg.Connection) -> None:
    await log.writer.execute(INSERT)
    await log.since()
    async with reader.transaction(isolation="repeatable_read"):
        await reader.fetchval("SELECT count(*) FROM task_session_messages")
        transaction = await log.change(MARK)
        assert change_of(await Filler(reader).fill(transaction), "s1").operations is None
