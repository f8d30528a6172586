"""What changes at the tables under a running tracker: receipts say less instead of something wrong, and it says what to
set (T4).
"""

import logging
import random
import string
from collections.abc import AsyncIterator

import asyncpg
import pytest

from services.revision.epoch import BREACH, GONE
from services.revision.tracker import tracker as module
from services.revision.tracker.drafts import SessionChange, Transaction
from shared.contracts.receipts import EpochReceipt
from tests.integration.tracker.log import Log, names, receipts_of, said
from tests.integration.tracker.streams import PARTITIONS, Published, leads, published, says, tracking
from tests.support.waiting import eventually

MESSAGE = (
    "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content) "
    "VALUES ('m', 's1', 't', 'agent', 'x')"
)
IDENTITY = "ALTER TABLE task_session_messages REPLICA IDENTITY"
DROPPED = "ALTER PUBLICATION conversation_receipts DROP TABLE task_session_messages"
UPDATED = "UPDATE task_session_messages SET content = 'y' WHERE id = 'm'"
EPOCH = "SELECT epoch, reason FROM conversation.epoch"


@pytest.fixture
async def streams(redis_url: str) -> AsyncIterator[Published]:
    async with published(redis_url) as found:
        yield found


def completeness(transaction: Transaction) -> dict[str, bool]:
    """Which sessions the transaction changed, and whether each change names its rows."""
    return {
        draft.session_id: draft.operations is not None
        for draft in transaction.drafts
        if isinstance(draft, SessionChange)
    }


@pytest.mark.parametrize(
    ("statement", "sessions"),
    [
        ("UPDATE task_session_messages SET task_session_id = 's2' WHERE id = 'm'", ("s1", "s2")),
        ("UPDATE task_session_messages SET task_id = 'u' WHERE id = 'm'", ("s1",)),
        ("UPDATE task_session_messages SET author_type = 'user' WHERE id = 'm'", ("s1",)),
        ("UPDATE task_session_messages SET id = 'n' WHERE id = 'm'", ("s1",)),
        ("DELETE FROM task_session_messages WHERE id = 'm'", ("s1",)),
    ],
    ids=["session", "task", "author", "id", "deletion"],
)
async def test_without_its_identity_a_table_names_no_row_that_was_there(
    log: Log, statement: str, sessions: tuple[str, ...]
) -> None:
    await log.changes(MESSAGE, f"{IDENTITY} DEFAULT")
    transaction = await log.change(statement)
    assert completeness(transaction) == dict.fromkeys(sessions, False)
    assert (transaction.doubtful, transaction.broken) == (True, None)
    assert [receipt for receipt in receipts_of(transaction) if receipt.kind != "change" or receipt.complete] == []


async def test_without_its_identity_a_table_still_names_what_is_new(log: Log) -> None:
    await log.changes(f"{IDENTITY} DEFAULT")
    transaction = await log.change(MESSAGE)
    assert said(transaction, "s1") == [("upsert", "m")]
    assert not transaction.doubtful


async def test_an_identity_by_the_whole_row_is_as_good(log: Log) -> None:
    await log.changes(MESSAGE, f"{IDENTITY} FULL")
    transaction = await log.change("UPDATE task_session_messages SET task_session_id = 's2' WHERE id = 'm'")
    assert said(transaction, "s1") == [("remove", "m")]
    assert said(transaction, "s2") == [("upsert", "m")]


async def test_an_identity_that_lacks_a_column_of_the_selection(log: Log) -> None:
    await log.changes(
        MESSAGE,
        "CREATE UNIQUE INDEX lacking ON task_session_messages (id, task_session_id)",
        f"{IDENTITY} USING INDEX lacking",
    )
    transaction = await log.change("UPDATE task_session_messages SET author_type = 'user' WHERE id = 'm'")
    assert completeness(transaction) == {"s1": False}


async def test_an_identity_that_is_back_is_trusted_again(log: Log) -> None:
    await log.changes(MESSAGE, f"{IDENTITY} DEFAULT", UPDATED, f"{IDENTITY} USING INDEX task_session_messages_identity")
    assert said(await log.change(UPDATED), "s1") == [("upsert", "m")]


async def test_a_revision_without_a_logged_row_names_nothing(log: Log) -> None:
    await log.changes(MESSAGE, DROPPED)
    transaction = await log.change(UPDATED)
    assert completeness(transaction) == {"s1": False}
    assert transaction.doubtful


async def test_rows_of_one_table_do_not_stand_for_those_of_another(log: Log) -> None:
    await log.changes(MESSAGE, DROPPED)
    async with log.writer.transaction():
        await log.writer.execute(
            "INSERT INTO task_session_turns (id, task_session_id, task_id) VALUES ('u', 's1', 't')"
        )
        await log.writer.execute(UPDATED)
    [transaction] = await log.since()
    assert completeness(transaction) == {"s1": False}


async def test_a_revision_advanced_by_hand_names_nothing(log: Log) -> None:
    transaction = await log.change(
        "UPDATE conversation_session_revisions SET revision = revision + 1 WHERE session_id = 's1'"
    )
    assert completeness(transaction) == {"s1": False}
    assert transaction.doubtful


async def test_statements_that_share_rows_are_explained(log: Log) -> None:
    """Triggers inside triggers, several writes in one statement, a rolled back savepoint: each advance has its row."""
    await log.writer.execute(
        "CREATE FUNCTION nested() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO task_session_turns (id, task_session_id, task_id)"
        " VALUES ('of ' || NEW.id, NEW.task_session_id, 't');"
        " RETURN NULL; END $$;"
        "CREATE TRIGGER a_nested AFTER INSERT ON task_session_messages FOR EACH ROW EXECUTE FUNCTION nested()"
    )
    async with log.writer.transaction():
        await log.writer.execute(MESSAGE)
        await log.writer.execute(
            "WITH a AS (UPDATE task_session_messages SET content = 'z' RETURNING task_session_id)"
            "INSERT INTO task_session_turns (id, task_session_id, task_id) SELECT 'w', task_session_id, 't' FROM a"
        )
        savepoint = log.writer.transaction()
        await savepoint.start()
        await log.writer.execute(UPDATED)
        await savepoint.rollback()
    [transaction] = await log.since()
    assert sorted(said(transaction, "s1")) == [("upsert", "m"), ("upsert", "of m"), ("upsert", "w")]
    assert not transaction.doubtful


@pytest.mark.parametrize("kind", ["USING INDEX task_session_messages_identity", "FULL"])
async def test_an_id_that_is_stored_apart_is_told_like_any_other(log: Log, kind: str) -> None:
    """Only in tables that were there before this schema can an id be so long."""
    row_id = "".join(random.Random(7).choices(string.printable[:94], k=2000))
    await log.writer.execute("ALTER TABLE task_session_messages DROP CONSTRAINT task_session_messages_id_check")
    await log.changes(f"{IDENTITY} {kind}")
    await log.writer.execute(MESSAGE.replace("'m'", "$1"), row_id)
    await log.since()
    for statement in (
        "UPDATE task_session_messages SET content = 'y' WHERE id = $1",
        "UPDATE task_session_messages SET task_session_id = 's2' WHERE id = $1",
        "DELETE FROM task_session_messages WHERE id = $1",
    ):
        await log.writer.execute(statement, row_id)
        [transaction] = await log.since()
        assert not transaction.doubtful
        assert {names(transaction, row_id), *completeness(transaction).values()} == {True}
        receipts = [receipt for receipt in receipts_of(transaction) if receipt.kind == "change"]
        assert [receipt.complete for receipt in receipts] == [True] * len(transaction.drafts)


BREACHES = {
    "identity by primary key": (
        f"{IDENTITY} DEFAULT",
        f"{IDENTITY} USING INDEX task_session_messages_identity",
        "ALTER TABLE public.task_session_messages REPLICA IDENTITY USING INDEX task_session_messages_identity",
    ),
    "no identity": (
        "ALTER TABLE task_session_turns REPLICA IDENTITY NOTHING",
        "ALTER TABLE task_session_turns REPLICA IDENTITY FULL",
        "ALTER TABLE public.task_session_turns REPLICA IDENTITY USING INDEX task_session_turns_identity",
    ),
    "revisions without their old row": (
        "ALTER TABLE conversation_session_revisions REPLICA IDENTITY DEFAULT",
        "ALTER TABLE conversation_session_revisions REPLICA IDENTITY FULL",
        "ALTER TABLE public.conversation_session_revisions REPLICA IDENTITY FULL",
    ),
    "table not published": (
        DROPPED,
        "ALTER PUBLICATION conversation_receipts ADD TABLE task_session_messages",
        "ALTER PUBLICATION conversation_receipts ADD TABLE public.task_session_messages",
    ),
    "changes not published": (
        "ALTER PUBLICATION conversation_receipts SET (publish = 'insert, update')",
        "ALTER PUBLICATION conversation_receipts SET (publish = 'insert, update, delete, truncate')",
        "ALTER PUBLICATION conversation_receipts SET (publish = 'insert, update, delete, truncate')",
    ),
    "rows not published": (
        "ALTER PUBLICATION conversation_receipts SET TABLE task_session_messages WHERE (author_type = 'user'), "
        "task_session_turns, conversation_session_revisions, conversation.epoch",
        "ALTER PUBLICATION conversation_receipts SET TABLE task_session_messages, task_session_turns, "
        "conversation_session_revisions, conversation.epoch",
        "leaves out rows or columns: ALTER PUBLICATION conversation_receipts SET TABLE",
    ),
    "no publication": (
        "DROP PUBLICATION conversation_receipts",
        "CREATE PUBLICATION conversation_receipts FOR TABLE public.task_session_messages, public.task_session_turns, "
        "public.conversation_session_revisions, conversation.epoch",
        "CREATE PUBLICATION conversation_receipts FOR TABLE",
    ),
    "trigger disabled": (
        "ALTER TABLE task_session_turns DISABLE TRIGGER conversation_rows_updated",
        "ALTER TABLE task_session_turns ENABLE TRIGGER conversation_rows_updated",
        "ALTER TABLE public.task_session_turns ENABLE TRIGGER conversation_rows_updated",
    ),
    "trigger for replicas alone": (
        "ALTER TABLE task_sessions ENABLE REPLICA TRIGGER conversation_sessions_created",
        "ALTER TABLE task_sessions ENABLE ALWAYS TRIGGER conversation_sessions_created",
        "ALTER TABLE public.task_sessions ENABLE TRIGGER conversation_sessions_created",
    ),
}


@pytest.mark.parametrize("name", BREACHES)
async def test_broken_capture_is_found_says_what_to_set_and_mints_at_both_ends(
    database_url: str, redis_url: str, writer: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(module, "BREACH_SECONDS", 0.0)
    break_, heal, advice = BREACHES[name]
    async with tracking(database_url, redis_url) as tracker:
        await leads(tracker)
        whole = await writer.fetchval(EPOCH)
        await writer.execute(break_)
        await says(tracker, advice)
        broken, reason = await writer.fetchrow(EPOCH)
        assert broken != whole
        assert reason.startswith(BREACH)
        await writer.execute(heal)
        await leads(tracker)
        healed, reason = await writer.fetchrow(EPOCH)
        assert healed != broken
        assert reason == "capture is whole again"


async def test_an_epoch_that_cannot_be_written_is_said_as_well(
    database_url: str, redis_url: str, writer: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BREACH_SECONDS", 0.0)
    async with tracking(database_url, redis_url) as tracker:
        await leads(tracker)
        await writer.execute("ALTER TABLE conversation.epoch REPLICA IDENTITY NOTHING")
        await says(tracker, "ALTER TABLE conversation.epoch REPLICA IDENTITY DEFAULT")
        await writer.execute("ALTER TABLE conversation.epoch REPLICA IDENTITY DEFAULT")
        await leads(tracker)


async def test_a_breach_mints_once_however_often_it_is_found(
    database_url: str, redis_url: str, writer: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BREACH_SECONDS", 0.0)
    async with tracking(database_url, redis_url) as first, tracking(database_url, redis_url) as second:
        await writer.execute(DROPPED)
        await says(first, "ADD TABLE")
        await says(second, "ADD TABLE")
        epoch = await writer.fetchval(EPOCH)
        async with tracking(database_url, redis_url) as third:
            await says(third, "ADD TABLE")
        assert await writer.fetchval(EPOCH) == epoch


async def test_a_doubtful_transaction_is_looked_into_at_once(
    database_url: str, redis_url: str, writer: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BREACH_SECONDS", 3600.0)
    await writer.execute(MESSAGE)
    async with tracking(database_url, redis_url) as tracker:
        await leads(tracker)
        await writer.execute(DROPPED)
        await writer.execute(UPDATED)
        await says(tracker, "ADD TABLE public.task_session_messages")


@pytest.mark.parametrize("statement", ["DELETE FROM conversation.epoch", "TRUNCATE conversation.epoch"])
async def test_an_epoch_that_is_gone_is_made_again_by_the_leader(
    database_url: str, redis_url: str, writer: asyncpg.Connection, streams: Published, statement: str
) -> None:
    async with tracking(database_url, redis_url) as tracker:
        term = await leads(tracker)
        before = await writer.fetchval(EPOCH)
        await writer.execute(statement)

        async def restored() -> bool:
            row = await writer.fetchrow(f"{EPOCH} WHERE database_oid IS NOT NULL")
            return row is not None and (row["reason"], row["epoch"] == before) == (GONE, False)

        await eventually(restored)
        epoch = await writer.fetchval(EPOCH)

        async def announced() -> bool:
            found = {entry.partition for entry in await streams.entries() if entry.receipt == EpochReceipt(epoch=epoch)}
            return len(found) == PARTITIONS

        await eventually(announced)
        assert await leads(tracker) == term
    async with tracking(database_url, redis_url) as tracker:
        await leads(tracker)
        assert await writer.fetchval(EPOCH) == epoch


async def test_an_epoch_that_is_gone_before_the_first_tracker(
    database_url: str, redis_url: str, writer: asyncpg.Connection
) -> None:
    await writer.execute("DELETE FROM conversation.epoch")
    async with tracking(database_url, redis_url) as tracker:
        await leads(tracker)
        assert await writer.fetchval("SELECT count(*) FROM conversation.epoch WHERE heartbeat_at IS NOT NULL") == 1


async def test_only_an_epoch_after_the_first_one_is_a_warning(
    database_url: str, redis_url: str, writer: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, module.__name__)
    for _ in range(2):
        async with tracking(database_url, redis_url) as tracker:
            await leads(tracker)
        await writer.execute("UPDATE conversation.epoch SET heartbeat_at = heartbeat_at - interval '1 hour'")
    minted = [record.levelname for record in caplog.records if "a new epoch was minted" in record.getMessage()]
    assert minted == ["INFO", "WARNING"]


async def test_a_slot_that_stays_blocked_is_one_line_in_the_log(
    database_url: str, redis_url: str, writer: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, module.__name__)
    async with writer.transaction():
        await writer.execute(MESSAGE)
        async with tracking(database_url, redis_url, slot_seconds=2) as tracker:
            await says(tracker, "slot creation waits for process")
            first = tracker.status.reason

            async def live() -> bool:
                return tracker.status.reason not in (first, None) and "no slot" not in str(tracker.status.reason)

            await eventually(live)
            await says(tracker, "no slot after 2 s")
            assert len([record for record in caplog.records if "cannot follow" in record.getMessage()]) == 1
