"""The application's own tables, where a task may be NULL and so is no part of the replica identity: what the log does
not tell is said to be unknown, and nothing else is.
"""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from services.reader.rows import message_row
from services.revision.schema.migrate import migrate
from services.revision.tracker.drafts import SessionChange, Transaction
from services.revision.tracker.prerequisites import breach
from shared.contracts.receipts import ChangeReceipt
from tests.integration.tracker.log import Log, followed, operation_of, receipts_of, said
from tests.support.kandev import FILL, SCHEMA

FENCE = (
    "INSERT INTO task_sessions (id, task_id, started_at, updated_at) VALUES ('fence', 't', '2026-01-01', '2026-01-01')"
)
TURN_DEFAULTS = (
    "ALTER TABLE task_session_turns ALTER started_at SET DEFAULT now(), ALTER created_at SET DEFAULT now(), "
)


@pytest.fixture
async def writer(empty_database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """The application's database, attached. The tests' fences are turns that name little of themselves."""
    connection = await asyncpg.connect(empty_database_url)
    await connection.execute(SCHEMA + FILL.format(sessions=4, messages=80))
    await connection.execute(f"{TURN_DEFAULTS} ALTER updated_at SET DEFAULT now()")
    await migrate(connection)
    await connection.execute(FENCE)
    yield connection
    await connection.close()


@pytest.fixture
async def log(empty_database_url: str, writer: asyncpg.Connection) -> AsyncIterator[Log]:
    async with followed(empty_database_url, writer) as log:
        yield log


def complete(transaction: Transaction) -> dict[str, bool]:
    """By session, whether its change names its rows."""
    changes = [draft for draft in transaction.drafts if isinstance(draft, SessionChange)]
    return {change.session_id: change.operations is not None for change in changes}


@pytest.mark.parametrize("message", ["m4", "m7"], ids=["of a task", "of none"])
async def test_an_update_that_leaves_the_task_names_its_row(log: Log, message: str) -> None:
    transaction = await log.change(f"UPDATE task_session_messages SET content = 'new' WHERE id = '{message}'")
    [session] = complete(transaction)
    assert said(transaction, session) == [("upsert", message)]
    previous = operation_of(transaction, session, message).previous
    assert previous is not None
    assert previous.task_id == (None if message == "m7" else "t")
    assert not transaction.doubtful


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE task_session_messages SET task_id = NULL WHERE id = 'm4'",
        "UPDATE task_session_messages SET task_id = 'u' WHERE id = 'm4'",
        "UPDATE task_session_messages SET task_id = 'u' WHERE task_session_id = 's0'",
        "UPDATE task_session_messages SET task_id = 'u' WHERE id = 'm28'",
        "UPDATE task_session_turns SET task_id = 'u' WHERE id = 'turn0'",
        "DELETE FROM task_session_messages WHERE id = 'm4'",
        "DELETE FROM task_session_turns WHERE id = 'turn0'",
        "UPDATE task_session_messages SET author_type = 'user' WHERE id = 'm4'",
    ],
)
async def test_what_the_log_does_not_tell_is_read_again(log: Log, statement: str) -> None:
    transaction = await log.change(statement)
    assert complete(transaction) == {"s0": False}
    assert transaction.broken is None
    [receipt] = receipts_of(transaction)
    assert isinstance(receipt, ChangeReceipt)
    assert not receipt.complete


async def test_other_rows_of_the_transaction_do_not_stand_for_a_changed_task(log: Log) -> None:
    async with log.writer.transaction():
        await log.writer.execute("UPDATE task_session_messages SET content = 'y' WHERE task_session_id = 's0'")
        await log.writer.execute("UPDATE task_session_messages SET task_id = 'u' WHERE id = 'm4'")
    [transaction] = await log.since()
    assert complete(transaction) == {"s0": False}


async def test_a_move_is_unknown_where_it_came_from_and_known_where_it_went(log: Log) -> None:
    transaction = await log.change("UPDATE task_session_messages SET task_session_id = 's1' WHERE id = 'm4'")
    assert complete(transaction) == {"s0": False, "s1": True}
    assert said(transaction, "s1") == [("upsert", "m4")]


async def test_the_first_change_of_a_session_may_be_one_of_its_tasks(log: Log) -> None:
    await log.writer.execute(
        "ALTER TABLE task_session_messages DISABLE TRIGGER USER; ALTER TABLE task_sessions DISABLE TRIGGER USER;"
        "INSERT INTO task_sessions (id, task_id, started_at, updated_at) VALUES ('late', 't', 'now', 'now');"
        "INSERT INTO task_session_messages (id, task_session_id, author_type, content, created_at)"
        " VALUES ('l', 'late', 'agent', '', 'now');"
        "ALTER TABLE task_session_messages ENABLE TRIGGER USER; ALTER TABLE task_sessions ENABLE TRIGGER USER"
    )
    await log.since()
    transaction = await log.change("UPDATE task_session_messages SET task_id = 'u' WHERE id = 'l'")
    assert complete(transaction) == {"late": False}


async def test_a_new_row_is_known_and_null_is_what_it_is_read_as(log: Log) -> None:
    transaction = await log.change(
        "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, author_id, content,"
        " requests_input, created_at) VALUES ('n', 's0', NULL, 'agent', NULL, 'x', NULL, '2026-02-01')"
    )
    [receipt] = receipts_of(transaction)
    assert isinstance(receipt, ChangeReceipt)
    [operation] = receipt.operations
    assert operation.message is not None
    assert (operation.message.task_id, operation.message.author_id) == (None, "")
    assert operation.message.requests_input is False


async def test_a_row_without_a_time_of_its_update_was_last_changed_when_it_came(log: Log) -> None:
    transaction = await log.change("UPDATE task_session_messages SET updated_at = NULL, content = 'y' WHERE id = 'm5'")
    [receipt] = receipts_of(transaction)
    assert isinstance(receipt, ChangeReceipt)
    [operation] = receipt.operations
    assert operation.message is not None
    assert operation.message.updated_at == operation.message.created_at
    nulls = dict.fromkeys(("task_id", "turn_id", "author_id", "requests_input", "metadata", "updated_at"))
    row = {**nulls, "id": "m", "author_type": "agent", "content": "", "type": "message"}
    row |= {"created_at": 5, "prompt_seq": 0}
    assert b'"updated_at":"1970-01-01T00:00:00.000005Z"' in message_row(row, "s").json


@pytest.mark.parametrize("table", ["task_session_messages", "task_session_turns"])
@pytest.mark.parametrize("what", ["DISABLE TRIGGER", "DROP TRIGGER"])
async def test_nobody_watches_the_task(writer: asyncpg.Connection, table: str, what: str) -> None:
    name = "conversation_task_changed"
    statement = f"DROP TRIGGER {name} ON {table}" if what == "DROP TRIGGER" else f"ALTER TABLE {table} {what} {name}"
    assert await breach(writer) is None
    await writer.execute(statement)
    assert f"the trigger {name} of public.{table} is missing or disabled" in str(await breach(writer))
