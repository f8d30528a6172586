"""Every committed change advances its session, whoever writes and however; revisions never go back in an epoch (R1)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

pytestmark = pytest.mark.usefixtures("source")

Other = Callable[[], Awaitable[Any]]

INSERT_AGENT = (
    "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type) "
    "SELECT s || n, s, 't', 'agent' FROM unnest($1::text[]) s, generate_series(1, 3) n ORDER BY n, s"
)
INSERT_TURN = "INSERT INTO task_session_turns (id, task_session_id, task_id) VALUES ($1, $2, 't')"


async def test_a_new_session_starts_at_the_floor(source: Any) -> None:
    assert (await source.revision("a"), await source.floor()) == (1, 1)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type) VALUES ('n', 'a', 't', 'agent')",
        "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type) VALUES ('n', 'a', 't', 'user')",
        "UPDATE task_session_messages SET content = 'changed' WHERE id = 'm1'",
        "UPDATE task_session_messages SET content = content WHERE id = 'm1'",
        "UPDATE task_session_messages SET content = 'all' WHERE task_session_id = 'a'",
        "DELETE FROM task_session_messages WHERE id = 'm1'",
        "DELETE FROM task_session_messages WHERE task_session_id = 'a'",
        "INSERT INTO task_session_turns (id, task_session_id, task_id) VALUES ('n', 'a', 't')",
        "UPDATE task_session_turns SET completed_at = clock_timestamp() WHERE id = 'u'",
        "DELETE FROM task_session_turns WHERE id = 'u'",
        "MERGE INTO task_session_messages m USING (VALUES ('m1')) v (id) ON m.id = v.id "
        "WHEN MATCHED THEN UPDATE SET content = 'merged'",
        "TRUNCATE task_session_messages",
        "TRUNCATE task_session_turns",
    ],
)
async def test_one_statement_advances_its_session_once(source: Any, statement: str) -> None:
    await source.execute(INSERT_AGENT, ["a"])
    await source.say("m1", author="agent")
    await source.execute(INSERT_TURN, "u", "a")
    before = await source.revision("a"), await source.revision("b")
    await source.execute(statement)
    assert (await source.revision("a"), await source.revision("b")) == (before[0] + 1, before[1])


async def test_statements_that_touch_nothing_advance_nothing(source: Any) -> None:
    await source.execute("UPDATE task_session_messages SET content = 'x' WHERE false")
    await source.execute("DELETE FROM task_session_turns")
    await source.execute("TRUNCATE task_session_messages")
    assert await source.revision("a") == 1


async def test_bulk_statements_advance_every_session_once(source: Any) -> None:
    await source.execute(INSERT_AGENT, ["b", "a"])
    assert (await source.revision("a"), await source.revision("b")) == (2, 2)
    await source.execute("UPDATE task_session_messages SET content = 'x'")
    assert (await source.revision("a"), await source.revision("b")) == (3, 3)
    await source.execute("DELETE FROM task_session_messages")
    assert (await source.revision("a"), await source.revision("b")) == (4, 4)


async def test_copy_advances_once(source: Any) -> None:
    await source.connection.copy_records_to_table(
        "task_session_messages",
        records=[(f"c{n}", "ab"[n % 2], "t", "agent") for n in range(50)],
        columns=["id", "task_session_id", "task_id", "author_type"],
    )
    assert (await source.revision("a"), await source.revision("b")) == (2, 2)


@pytest.mark.parametrize("table", ["task_session_messages", "task_session_turns"])
async def test_a_move_advances_both_sessions(source: Any, table: str) -> None:
    await source.say("m", author="agent")
    await source.execute(INSERT_TURN, "m", "a")
    before = await source.revision("a"), await source.revision("b")
    await source.execute(f"UPDATE {table} SET task_session_id = 'b' WHERE id = 'm'")
    assert (await source.revision("a"), await source.revision("b")) == (before[0] + 1, before[1] + 1)


async def test_what_is_rolled_back_leaves_no_hole(source: Any) -> None:
    async with source.connection.transaction():
        await source.say("m1")
        savepoint = source.connection.transaction()
        await savepoint.start()
        await source.say("m2")
        await source.execute(INSERT_TURN, "u", "a")
        await savepoint.rollback()
        await source.say("m3")
    assert await source.revision("a") == 3
    assert [ordinal for _, ordinal in await source.ordinals()] == [1, 2]


@pytest.mark.parametrize("table", ["task_sessions WHERE id = 'a'", "tasks", "workspaces"])
async def test_a_cascade_removes_the_revision_and_nothing_brings_it_back(source: Any, table: str) -> None:
    await source.execute(INSERT_AGENT, ["a", "b"])
    await source.say("m")
    await source.execute(INSERT_TURN, "u", "a")
    last = await source.revision("a")
    epoch = await source.epoch()
    await source.execute(f"DELETE FROM {table}")
    assert await source.revision("a") is None
    assert await source.fetchval("SELECT count(*) FROM task_session_messages WHERE task_session_id = 'a'") == 0
    assert (await source.floor(), await source.epoch()) == (last + 1, epoch)


@pytest.mark.parametrize("isolation", ["read_committed", "repeatable_read", "serializable"])
@pytest.mark.parametrize("together", [True, False])
async def test_a_session_made_again_starts_above_its_earlier_life(source: Any, isolation: str, together: bool) -> None:
    epoch = await source.epoch()
    for n in range(4):
        await source.say(f"m{n}", author="agent")
    last = await source.revision("a")
    recreate = "INSERT INTO task_sessions (id, task_id) VALUES ('a', 't')"
    if together:
        async with source.connection.transaction(isolation=isolation):
            await source.execute("DELETE FROM task_sessions WHERE id = 'a'")
            await source.execute(recreate)
    else:
        await source.execute("DELETE FROM task_sessions WHERE id = 'a'")
        async with source.connection.transaction(isolation=isolation):
            await source.execute(recreate)
    assert await source.revision("a") == last + 1
    assert await source.epoch() == epoch


async def test_a_creation_that_waits_for_the_deletion_starts_above_it(
    source: Any, other: Other, until_blocked: Any
) -> None:
    await source.execute(INSERT_AGENT, ["a"])
    last = await source.revision("a")
    creator = await other()
    pid = await creator.fetchval("SELECT pg_backend_pid()")
    deletion = source.connection.transaction()
    await deletion.start()
    await source.execute("DELETE FROM task_sessions WHERE id = 'a'")
    creation = asyncio.create_task(creator.execute("INSERT INTO task_sessions (id, task_id) VALUES ('a', 't')"))
    await until_blocked(source.connection, pid)
    await deletion.commit()
    await creation
    assert await source.revision("a") == last + 1


@pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])
async def test_an_old_snapshot_still_sees_the_newest_floor(source: Any, other: Other, isolation: str) -> None:
    creator = await other()
    create = "INSERT INTO task_sessions (id, task_id) VALUES ('c', 't')"
    async with creator.connection.transaction(isolation=isolation):
        assert await creator.fetchval("SELECT count(*) FROM task_sessions") == 2
        await source.execute(create)
        await source.execute(INSERT_AGENT, ["c"])
        last = await source.revision("c")
        await source.execute("DELETE FROM task_sessions WHERE id = 'c'")
        await creator.execute(create)
    assert await source.revision("c") == last + 1


@pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])
async def test_an_old_snapshot_that_holds_the_deleted_session_is_told_to_retry(
    source: Any, other: Other, isolation: str
) -> None:
    creator = await other()
    transaction = creator.connection.transaction(isolation=isolation)
    await transaction.start()
    assert await creator.fetchval("SELECT count(*) FROM task_sessions") == 2
    await source.execute("DELETE FROM task_sessions WHERE id = 'a'")
    with pytest.raises(asyncpg.SerializationError):
        await creator.execute("INSERT INTO task_sessions (id, task_id) VALUES ('a', 't')")
    await transaction.rollback()


async def test_an_open_deletion_holds_up_no_other_deletion(source: Any, other: Other) -> None:
    """Two deleters in opposite order: the floor they share must not join the cycle."""
    await source.execute("INSERT INTO task_sessions (id, task_id) VALUES ('c', 't')")
    second = await other()
    async with source.connection.transaction():
        await source.execute("DELETE FROM task_sessions WHERE id = 'a'")
        await second.execute("SET lock_timeout = '5s'")
        await second.execute("DELETE FROM task_sessions WHERE id = 'b'")
        await source.execute("DELETE FROM task_sessions WHERE id = 'c'")
    assert await source.fetchval("SELECT count(*) FROM conversation_session_revisions") == 0


async def test_a_rolled_back_deletion_keeps_the_session_and_its_revision(source: Any) -> None:
    await source.execute(INSERT_AGENT, ["a"])
    transaction = source.connection.transaction()
    await transaction.start()
    await source.execute("DELETE FROM task_sessions WHERE id = 'a'")
    await transaction.rollback()
    await source.say("after")
    assert await source.revision("a") == 3


async def test_no_lock_outlives_the_raising_of_the_floor(source: Any) -> None:
    async with source.connection.transaction():
        await source.execute("DELETE FROM task_sessions")
        assert await source.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0


async def test_lowering_a_revision_is_refused(source: Any) -> None:
    await source.execute(INSERT_AGENT, ["a"])
    with pytest.raises(asyncpg.PostgresError) as refused:
        await source.execute("UPDATE conversation_session_revisions SET revision = 1 WHERE session_id = 'a'")
    assert refused.value.sqlstate == "KC003"
    assert await source.revision("a") == 2


@pytest.mark.parametrize(
    "statement",
    [
        "TRUNCATE conversation_session_revisions",
        "TRUNCATE task_sessions CASCADE",
        "DELETE FROM conversation_session_revisions WHERE session_id = 'a'",
    ],
)
async def test_losing_revision_rows_raises_the_floor_and_mints(source: Any, statement: str) -> None:
    for n in range(3):
        await source.say(f"m{n}")
    last = await source.revision("a")
    epoch = await source.epoch()
    await source.execute(statement)
    assert await source.floor() > last
    assert await source.epoch() != epoch
    await source.execute("INSERT INTO task_sessions (id, task_id) VALUES ('a', 't') ON CONFLICT DO NOTHING")
    await source.say("later", author="agent")
    assert await source.revision("a") > last


async def test_minting_gives_the_new_epoch(source: Any) -> None:
    before = await source.epoch()
    minted = await source.fetchval("SELECT conversation.mint_epoch('an operator asked')")
    assert minted == await source.epoch() != before
    assert await source.fetchval("SELECT reason FROM conversation.epoch") == "an operator asked"


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type) VALUES ('n', 'a', 't', 'agent')",
        "UPDATE task_session_messages SET content = 'x'",
        "UPDATE task_session_messages SET task_session_id = 'a'",
        "TRUNCATE task_session_messages",
    ],
)
async def test_a_session_older_than_the_triggers_gets_its_row_in_two_steps(source: Any, statement: str) -> None:
    """In the log: an insertion at 0, then one update, so that the interval's base is 0."""
    await source.say("old", author="agent")
    await source.say("old-b", session="b", author="agent")
    await source.execute("DELETE FROM conversation_session_revisions WHERE session_id = 'a'")
    floor = await source.floor()
    slot = "s_" + (await source.fetchval("SELECT md5(current_database())"))[:20]
    await source.fetchval("SELECT pg_create_logical_replication_slot($1, 'test_decoding', true)", slot)
    await source.execute(statement)
    log = [
        row["data"]
        for row in await source.fetch("SELECT data FROM pg_logical_slot_get_changes($1, NULL, NULL)", slot)
        if "conversation_session_revisions" in row["data"] and "session_id[text]:'a'" in row["data"]
    ]
    assert len(log) == 2
    assert "INSERT" in log[0]
    assert "revision[bigint]:0" in log[0]
    assert f"revision[bigint]:{floor + 1}" in log[1]
    assert await source.revision("a") == floor + 1


async def test_two_first_writers_of_a_session_without_a_row(source: Any, other: Other, until_blocked: Any) -> None:
    await source.execute("DELETE FROM conversation_session_revisions")
    floor = await source.floor()
    second = await other()
    pid = await second.fetchval("SELECT pg_backend_pid()")
    first = source.connection.transaction()
    await first.start()
    await source.say("m1", author="agent")
    waiting = asyncio.create_task(second.say("m2", author="agent"))
    observer = await other()
    await until_blocked(observer.connection, pid)
    await first.commit()
    await waiting
    assert await source.revision("a") == floor + 2


async def test_an_insert_that_meets_a_deletion_leaves_no_revision(
    source: Any, other: Other, until_blocked: Any
) -> None:
    writer = await other()
    pid = await writer.fetchval("SELECT pg_backend_pid()")
    deletion = source.connection.transaction()
    await deletion.start()
    await source.execute("DELETE FROM task_sessions WHERE id = 'a'")
    for author in ("user", "agent"):
        insert = asyncio.create_task(writer.say("m", author=author))
        if author == "user":
            observer = await other()
            await until_blocked(observer.connection, pid)
            await deletion.commit()
        with pytest.raises(asyncpg.ForeignKeyViolationError):
            await insert
    assert await source.revision("a") is None


async def test_deleting_a_turn_leaves_its_messages_alone(source: Any) -> None:
    await source.execute(INSERT_TURN, "u", "a")
    await source.say("m", turn_id="u")
    await source.execute("DELETE FROM task_session_turns WHERE id = 'u'")
    assert await source.fetchval("SELECT turn_id FROM task_session_messages WHERE id = 'm'") == "u"
    assert await source.revision("a") == 4


async def test_sessions_older_than_the_triggers_are_given_a_row_at_0_once(source: Any) -> None:
    """Without one, deleting a session that never changed would leave rows in the log that no revision covers (T4)."""
    await source.say("m", author="agent")
    held = await source.revision("a")
    await source.execute("SET session_replication_role = replica")
    await source.execute("INSERT INTO task_sessions (id, task_id) SELECT 'old-' || n, 't' FROM generate_series(1, 5) n")
    await source.execute("SET session_replication_role = DEFAULT")
    for _ in range(2):
        await source.execute("CALL conversation.give_revision_rows(2)")
        given = await source.fetch("SELECT revision FROM conversation_session_revisions WHERE session_id LIKE 'old-%'")
        assert [row["revision"] for row in given] == [0] * 5
        assert await source.revision("a") == held


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE conversation_session_revisions SET revision = revision + 1000001 WHERE session_id = 'a'",
        "UPDATE conversation_session_revisions SET revision = 9223372036854775805 WHERE session_id = 'a'",
        "UPDATE conversation_session_revisions SET revision = 0 WHERE session_id = 'a'",
        "UPDATE conversation_session_revisions SET revision = 9007199254740991 WHERE session_id = 'old'",
        "INSERT INTO conversation_session_revisions VALUES ('rowless', 9223372036854775805)",
    ],
)
async def test_a_revision_that_no_statement_leads_to_is_refused(source: Any, statement: str) -> None:
    await source.execute("INSERT INTO task_sessions (id, task_id) VALUES ('old', 't'), ('rowless', 't')")
    await source.execute(
        "BEGIN; SET LOCAL session_replication_role = replica;"
        "UPDATE conversation_session_revisions SET revision = 0 WHERE session_id = 'old';"
        "DELETE FROM conversation_session_revisions WHERE session_id = 'rowless'; COMMIT"
    )
    with pytest.raises(asyncpg.PostgresError) as refused:
        await source.execute(statement)
    assert refused.value.sqlstate == "KC003"
    assert refused.value.hint


async def test_a_high_floor_is_where_sessions_begin(source: Any) -> None:
    """Also those without a revision row, which get there from 0."""
    await source.execute("SELECT conversation.raise_revision_floor(4999999)")
    await source.execute("INSERT INTO task_sessions (id, task_id) VALUES ('new', 't'), ('rowless', 't')")
    await source.execute(
        "BEGIN; SET LOCAL session_replication_role = replica;"
        "DELETE FROM conversation_session_revisions WHERE session_id = 'rowless'; COMMIT"
    )
    await source.say("m", session="new", author="agent")
    await source.say("n", session="rowless", author="agent")
    assert (await source.revision("new"), await source.revision("rowless")) == (5_000_001, 5_000_001)


@pytest.mark.parametrize("last", [9223372036854775805, 9223372036854775807])
@pytest.mark.parametrize(
    "statement", ["DELETE FROM task_sessions WHERE id = 'a'", "TRUNCATE conversation_session_revisions"]
)
async def test_a_session_that_ends_at_an_absurd_revision_ends_the_epoch_and_no_other_session(
    source: Any, last: int, statement: str
) -> None:
    epoch, floor = await source.epoch(), await source.floor()
    await source.execute(
        "BEGIN; SET LOCAL session_replication_role = replica;"
        f"UPDATE conversation_session_revisions SET revision = {last} WHERE session_id = 'a'; COMMIT"
    )
    await source.execute(statement)
    assert await source.epoch() != epoch
    assert await source.floor() == floor
    await source.execute("INSERT INTO task_sessions (id, task_id) VALUES ('new', 't')")
    await source.say("m", session="new", author="agent")
    assert await source.revision("new") == floor + 1


@pytest.mark.parametrize(
    "table", ["workspaces", "tasks", "task_sessions", "task_session_turns", "task_session_messages"]
)
async def test_an_id_is_no_longer_than_the_contracts_allow(source: Any, table: str) -> None:
    columns = {
        "workspaces": "id", "tasks": "id, workspace_id", "task_sessions": "id, task_id",
        "task_session_turns": "id, task_session_id, task_id",
        "task_session_messages": "id, task_session_id, task_id, author_type",
    }[table]  # fmt: skip
    values = {"workspace_id": "w", "task_id": "t", "task_session_id": "a", "author_type": "agent"}
    rest = "".join(f", '{values[name]}'" for name in columns.split(", ")[1:])
    insert = f"INSERT INTO {table} ({columns}) VALUES ($1{rest})"
    await source.execute(insert, "x" * 255)
    with pytest.raises(asyncpg.CheckViolationError):
        await source.execute(insert, "x" * 256)
