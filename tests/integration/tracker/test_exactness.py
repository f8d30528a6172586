"""What each kind of statement says in the log of a real PostgreSQL: whole intervals, every change named (T1)."""

import asyncio
import io

import asyncpg
import pytest

from services.revision.tracker.drafts import HistoryBroken, Selected, SessionRemoved
from services.revision.tracker.transaction import TRANSACTION_BUDGET
from shared.contracts.receipts import MAX_OPERATIONS, ChangeReceipt, RemovedReceipt
from tests.integration.tracker.log import Log, change_of, content_of, intervals, operation_of, receipts_of, said

MESSAGE = "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content) VALUES "


def agent(row_id: str, session_id: str = "s1", content: str = "x") -> str:
    return f"('{row_id}', '{session_id}', 't', 'agent', '{content}')"


def insert(*row_ids: str, session_id: str = "s1") -> str:
    return MESSAGE + ", ".join(agent(row_id, session_id) for row_id in row_ids)


def rows(prefix: str, session_id: str, count: int) -> str:
    return (
        "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content) "
        f"SELECT '{prefix}' || n, '{session_id}', 't', 'agent', 'x' FROM generate_series(1, {count}) n"
    )


async def test_one_transaction_is_one_receipt_per_session(log: Log) -> None:
    transaction = await log.change(f"BEGIN; {insert('a')}; {insert('b')}; {insert('c', session_id='s2')}; COMMIT")
    assert intervals(transaction) == {"s1": (1, 3), "s2": (1, 2)}
    assert said(transaction, "s1") == [("upsert", "a"), ("upsert", "b")]
    assert said(transaction, "s2") == [("upsert", "c")]
    assert all(isinstance(receipt, ChangeReceipt) and receipt.complete for receipt in receipts_of(transaction))


async def test_transactions_are_never_joined(log: Log) -> None:
    transactions = await log.changes(*(insert(f"m{n}") for n in range(20)))
    assert [intervals(transaction) for transaction in transactions] == [{"s1": (n + 1, n + 2)} for n in range(20)]


async def test_rows_arrive_as_the_contract_describes_them(log: Log) -> None:
    transaction = await log.change(
        "BEGIN;"
        "INSERT INTO task_session_turns (id, task_session_id, task_id, started_at, route_generation, metadata) "
        "VALUES ('turn', 's1', 't', '2026-01-02 03:04:05.600+02', 7, '{\"a\": [1]}');"
        "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content, requests_input,"
        " turn_id, metadata, created_at) VALUES ('m', 's1', 't', 'user', E'line\\n\"quoted\" ü', true, 'turn', 'null',"
        " '2026-01-02T00:00:00Z');"
        "COMMIT"
    )
    [receipt] = receipts_of(transaction)
    assert isinstance(receipt, ChangeReceipt)
    turn, message = receipt.operations
    assert turn.turn is not None
    assert (turn.turn.started_at, turn.turn.route_generation) == ("2026-01-02T01:04:05.6Z", 7)
    assert turn.turn.metadata == '{"a":[1]}'
    assert message.message is not None
    assert message.message.content == 'line\n"quoted" ü'
    assert (message.message.requests_input, message.message.metadata, message.message.prompt_seq) == (True, None, 1)
    assert message.message.created_at == "2026-01-02T00:00:00Z"
    assert receipt.epoch == log.epoch


async def test_a_rollback_says_nothing(log: Log) -> None:
    assert await log.changes(f"BEGIN; {insert('a')}; ROLLBACK") == []


async def test_only_what_survives_a_savepoint_is_said(log: Log) -> None:
    transaction = await log.change(
        f"BEGIN; {insert('a')}; SAVEPOINT p; {insert('b')}; {insert('z', session_id='s2')}; ROLLBACK TO p;"
        f"{insert('c')}; COMMIT"
    )
    assert intervals(transaction) == {"s1": (1, 3)}
    assert said(transaction, "s1") == [("upsert", "a"), ("upsert", "c")]


async def test_a_moved_row_leaves_one_session_and_enters_the_other(log: Log) -> None:
    transaction = (
        await log.changes(insert("m"), "UPDATE task_session_messages SET task_session_id = 's2' WHERE id = 'm'")
    )[1]
    assert intervals(transaction) == {"s1": (2, 3), "s2": (1, 2)}
    assert said(transaction, "s1") == [("remove", "m")]
    assert said(transaction, "s2") == [("upsert", "m")]
    assert operation_of(transaction, "s2", "m").previous == Selected("s1", "t", "agent")


async def test_a_row_moved_there_and_back_is_an_upsert_at_home_and_coverage_abroad(log: Log) -> None:
    move = "UPDATE task_session_messages SET task_session_id = '{}' WHERE id = 'm';"
    transaction = (await log.changes(insert("m"), f"BEGIN; {move.format('s2')} {move.format('s1')} COMMIT"))[1]
    assert said(transaction, "s1") == [("upsert", "m")]
    assert said(transaction, "s2") == []
    assert intervals(transaction) == {"s1": (2, 4), "s2": (1, 3)}


async def test_what_is_inserted_and_deleted_in_one_transaction_leaves_coverage(log: Log) -> None:
    transaction = await log.change(f"BEGIN; {insert('m')}; DELETE FROM task_session_messages WHERE id = 'm'; COMMIT")
    assert intervals(transaction) == {"s1": (1, 3)}
    assert said(transaction, "s1") == []


async def test_what_is_deleted_and_inserted_again_is_an_upsert_of_what_was_there(log: Log) -> None:
    again = f"BEGIN; DELETE FROM task_session_messages WHERE id = 'm'; {MESSAGE} {agent('m', content='new')}; COMMIT"
    transaction = (await log.changes(insert("m"), again))[1]
    operation = operation_of(transaction, "s1", "m")
    assert (content_of(operation), operation.previous) == (b"new", Selected("s1", "t", "agent"))


async def test_several_updates_keep_the_first_selection_and_the_last_image(log: Log) -> None:
    transaction = (
        await log.changes(
            insert("m"),
            "BEGIN; UPDATE task_session_messages SET task_id = 'u' WHERE id = 'm';"
            "UPDATE task_session_messages SET author_type = 'user', content = 'y' WHERE id = 'm';"
            "UPDATE task_session_messages SET content = 'z' WHERE id = 'm'; COMMIT",
        )
    )[1]
    operation = operation_of(transaction, "s1", "m")
    assert operation.previous == Selected("s1", "t", "agent")
    assert content_of(operation) == b"z"
    assert intervals(transaction) == {"s1": (2, 5)}


async def test_an_update_of_other_columns_has_the_selection_it_keeps(log: Log) -> None:
    transaction = (await log.changes(insert("m"), "UPDATE task_session_messages SET content = 'y' WHERE id = 'm'"))[1]
    assert operation_of(transaction, "s1", "m").previous == Selected("s1", "t", "agent")


async def test_a_new_id_is_another_row(log: Log) -> None:
    transaction = (await log.changes(insert("m"), "UPDATE task_session_messages SET id = 'n' WHERE id = 'm'"))[1]
    assert said(transaction, "s1") == [("remove", "m"), ("upsert", "n")]


async def test_deleted_rows_are_removed(log: Log) -> None:
    transaction = (await log.changes(insert("a", "b"), "DELETE FROM task_session_messages"))[1]
    assert said(transaction, "s1") == [("remove", "a"), ("remove", "b")]


async def test_a_deleted_session_is_one_removal_above_its_last_revision(log: Log) -> None:
    transaction = (await log.changes(insert("a", "b"), "DELETE FROM task_sessions WHERE id = 's1'"))[1]
    assert transaction.drafts == (SessionRemoved("s1", 2, 3),)
    assert transaction.broken is None
    [receipt] = receipts_of(transaction)
    assert isinstance(receipt, RemovedReceipt)


async def test_fifty_sessions_deleted_by_a_cascade_are_fifty_removals(log: Log) -> None:
    transaction = (
        await log.changes(
            "INSERT INTO task_sessions (id, task_id) SELECT 'many' || n, 'u' FROM generate_series(1, 50) n",
            "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type) "
            "SELECT 'm' || n, 'many' || n % 50 + 1, 'u', 'agent' FROM generate_series(1, 500) n",
            "DELETE FROM tasks WHERE id = 'u'",
        )
    )[-1]
    assert transaction.broken is None
    assert len(transaction.drafts) == 50
    assert all(isinstance(draft, SessionRemoved) for draft in transaction.drafts)


async def test_changes_before_the_deletion_belong_to_the_removal(log: Log) -> None:
    transaction = await log.change(
        f"BEGIN; {insert('a')}; {insert('b')}; DELETE FROM task_sessions WHERE id = 's1'; COMMIT"
    )
    assert transaction.drafts == (SessionRemoved("s1", 1, 4),)


async def test_a_session_deleted_and_made_again_is_a_removal_and_a_change_from_the_floor(log: Log) -> None:
    """R1: the id never restarts."""
    again = (
        "BEGIN; DELETE FROM task_sessions WHERE id = 's1'; INSERT INTO task_sessions (id, task_id) VALUES ('s1', 't');"
        f"{insert('a')}; COMMIT"
    )
    transaction = (await log.changes(insert("a", "b"), again))[1]
    removed, change = transaction.drafts
    assert removed == SessionRemoved("s1", 2, 3)
    assert change.base >= removed.revision
    assert said(transaction, "s1") == [("upsert", "a")]
    assert operation_of(transaction, "s1", "a").previous is None


async def test_a_session_that_only_comes_into_being_says_nothing(log: Log) -> None:
    assert await log.changes("INSERT INTO task_sessions (id, task_id) VALUES ('new', 't')") == []


async def test_copy_of_a_thousand_rows_over_ten_sessions(log: Log) -> None:
    await log.writer.execute(
        "INSERT INTO task_sessions (id, task_id) SELECT 'c' || n, 't' FROM generate_series(0, 9) n"
    )
    text = "".join(f"k{n}\tc{n % 10}\tt\tagent\n" for n in range(1000))
    await log.writer.copy_to_table(
        "task_session_messages",
        source=io.BytesIO(text.encode()),
        columns=["id", "task_session_id", "task_id", "author_type"],
    )
    [transaction] = await log.since()
    assert intervals(transaction) == {f"c{n}": (1, 2) for n in range(10)}
    assert all(len(said(transaction, f"c{n}")) == 100 for n in range(10))


async def test_merge_and_on_conflict(log: Log) -> None:
    await log.changes(insert("a", "b"))
    merge = (
        "MERGE INTO task_session_messages m USING (VALUES ('a'), ('b'), ('c')) v (id) ON m.id = v.id "
        "WHEN MATCHED AND v.id = 'a' THEN DELETE WHEN MATCHED THEN UPDATE SET content = 'merged' "
        "WHEN NOT MATCHED THEN INSERT (id, task_session_id, task_id, author_type) VALUES (v.id, 's1', 't', 'agent')"
    )
    upsert = insert("b", "d") + " ON CONFLICT (id) DO UPDATE SET content = 'again'"
    merged, upserted = await log.changes(merge, upsert)
    assert sorted(said(merged, "s1")) == [("remove", "a"), ("upsert", "b"), ("upsert", "c")]
    assert said(upserted, "s1") == [("upsert", "b"), ("upsert", "d")]
    assert merged.broken is None
    assert upserted.broken is None


async def test_a_bulk_update_over_many_sessions(log: Log) -> None:
    await log.writer.execute(
        "INSERT INTO task_sessions (id, task_id) SELECT 'b' || n, 't' FROM generate_series(1, 300) n"
    )
    await log.changes(
        "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type) "
        "SELECT 'm' || n, 'b' || n % 300 + 1, 't', 'agent' FROM generate_series(1, 3000) n ORDER BY 2"
    )
    transaction = await log.change("UPDATE task_session_messages SET content = 'new'")
    assert len(transaction.drafts) == 300
    assert sum(len(said(transaction, draft.session_id)) for draft in transaction.drafts) == 3000


@pytest.mark.parametrize("table", ["task_session_messages", "task_session_turns"])
async def test_truncate_makes_every_session_it_bumps_incomplete(log: Log, table: str) -> None:
    await log.changes(
        insert("a"),
        insert("b", session_id="s2"),
        "INSERT INTO task_session_turns (id, task_session_id, task_id) VALUES ('t1', 's1', 't'), ('t2', 's2', 't')",
    )
    transaction = await log.change(f"TRUNCATE {table}")
    assert {"s1", "s2"} <= intervals(transaction).keys()
    assert all(change_of(transaction, draft.session_id).operations is None for draft in transaction.drafts)
    assert transaction.broken is None


@pytest.mark.parametrize("table", ["task_session_messages", "task_session_turns"])
async def test_truncating_an_empty_table_breaks_nothing(log: Log, table: str) -> None:
    assert await log.changes(f"TRUNCATE {table}") == []


@pytest.mark.parametrize("statement", ["TRUNCATE task_sessions CASCADE", "TRUNCATE conversation_session_revisions"])
async def test_truncated_revisions_mint_an_epoch(log: Log, statement: str) -> None:
    await log.changes(insert("a"))
    await log.writer.execute(statement)
    await log.writer.execute("INSERT INTO task_sessions (id, task_id) VALUES ('fence', 't') ON CONFLICT DO NOTHING")
    transaction = (await log.since())[0]
    assert transaction.minted
    assert transaction.epoch == await log.writer.fetchval("SELECT epoch FROM conversation.epoch") != log.epoch
    assert transaction.drafts == ()
    assert transaction.broken is None


async def test_receipts_carry_the_epoch_of_their_place_in_the_log(log: Log) -> None:
    """R2; those of the minting transaction itself carry the new one, which any snapshot that shows their rows shows
    too.
    """
    before, minting, after = await log.changes(
        insert("a"), f"BEGIN; {insert('b')}; SELECT conversation.mint_epoch('test'); {insert('c')}; COMMIT", insert("d")
    )
    new = await log.writer.fetchval("SELECT epoch FROM conversation.epoch")
    assert [before.epoch, minting.epoch, after.epoch] == [log.epoch, new, new]
    assert [before.minted, minting.minted, after.minted] == [False, True, False]
    assert intervals(minting) == {"s1": (2, 4)}


async def test_a_heartbeat_says_nothing(log: Log) -> None:
    assert await log.changes("UPDATE conversation.epoch SET heartbeat_at = clock_timestamp()") == []


async def test_rows_without_their_revision_break_history(log: Log) -> None:
    """T4."""
    transaction = await log.change(
        "BEGIN; SET LOCAL session_replication_role = replica;"
        "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, created_at, updated_at) "
        "VALUES ('m', 's1', 't', 'agent', now(), now()); COMMIT"
    )
    assert transaction.broken == HistoryBroken(sessions=1, rows=1)
    assert transaction.drafts == ()


async def test_too_many_operations_make_a_session_incomplete_and_no_other(log: Log) -> None:
    transaction = await log.change(
        f"BEGIN; {rows('a', 's1', MAX_OPERATIONS + 1)}; {rows('b', 's2', MAX_OPERATIONS)}; COMMIT"
    )
    assert change_of(transaction, "s1").operations is None
    assert len(change_of(transaction, "s2").operations or ()) == MAX_OPERATIONS
    assert intervals(transaction) == {"s1": (1, 2), "s2": (1, 2)}


async def test_too_many_bytes_make_a_session_incomplete(log: Log) -> None:
    transaction = await log.change(f"{MESSAGE} ('m', 's1', 't', 'agent', repeat('x', 1100000))")
    [receipt] = receipts_of(transaction)
    assert isinstance(receipt, ChangeReceipt)
    assert not receipt.complete
    assert receipt.operations == ()


async def test_bytes_are_counted_as_they_are_encoded(log: Log) -> None:
    """600,000 line breaks are 1,200,000 bytes of JSON."""
    transaction = await log.change(f"{MESSAGE} ('m', 's1', 't', 'agent', repeat(E'\\n', 600000))")
    [receipt] = receipts_of(transaction)
    assert isinstance(receipt, ChangeReceipt)
    assert not receipt.complete


async def test_fifty_thousand_rows_keep_within_the_budget(log: Log) -> None:
    transaction = await log.change(rows("m", "s1", 50_000).replace("'x'", "repeat('x', 1000)"))
    assert transaction.size < TRANSACTION_BUDGET
    assert change_of(transaction, "s1").operations is None
    assert transaction.size < 10_000


async def test_concurrent_writers_leave_no_hole(log: Log, database_url: str) -> None:
    async def write(number: int) -> None:
        connection = await asyncpg.connect(database_url)
        try:
            for n in range(25):
                async with connection.transaction():
                    await connection.execute(insert(f"w{number}-{n}"))
                    async with connection.transaction():
                        await connection.execute(insert(f"w{number}-{n}b"))
        finally:
            await connection.close()

    async with asyncio.TaskGroup() as tasks:
        for number in range(4):
            tasks.create_task(write(number))
    transactions = await log.since()
    assert [intervals(transaction)["s1"] for transaction in transactions] == [
        (1 + 2 * n, 3 + 2 * n) for n in range(100)
    ]


async def test_a_deadlock_leaves_one_transaction(log: Log, database_url: str) -> None:
    await log.changes(insert("a"), insert("b", session_id="s2"))
    update = "UPDATE task_session_messages SET content = content || 'y' WHERE id = '{}'"

    async def cross(connection: asyncpg.Connection, first: str, second: str, met: asyncio.Barrier) -> bool:
        try:
            async with connection.transaction():
                await connection.execute(update.format(first))
                await met.wait()
                await connection.execute(update.format(second))
        except asyncpg.DeadlockDetectedError:
            return False
        return True

    one, other, met = await asyncpg.connect(database_url), await asyncpg.connect(database_url), asyncio.Barrier(2)
    try:
        committed = await asyncio.gather(cross(one, "a", "b", met), cross(other, "b", "a", met))
    finally:
        await one.close()
        await other.close()
    assert sorted(committed) == [False, True]
    [transaction] = await log.since()
    assert intervals(transaction) == {"s1": (2, 3), "s2": (2, 3)}


async def test_an_index_built_and_a_column_added_in_between(log: Log) -> None:
    """The log announces a changed table anew."""
    added = "ALTER TABLE task_session_messages ADD COLUMN extra text; "
    first, second = await log.changes(f"BEGIN; {insert('a')}; {added} {insert('b')}; COMMIT", insert("c"))
    assert said(first, "s1") == [("upsert", "a"), ("upsert", "b")]
    assert said(second, "s1") == [("upsert", "c")]
    assert all(
        isinstance(receipt, ChangeReceipt) and receipt.complete for receipt in receipts_of(first) + receipts_of(second)
    )
