"""What others have put into the database, before we came or since: it is left alone, and is no obstacle if it need not
be.
"""

import asyncio

import asyncpg
import pytest

from services.revision.cutover.tables import drop_journal
from services.revision.schema.attaching import KNOWN, Unsuitable
from services.revision.schema.detach import StillInUse, detach, planned
from services.revision.schema.migrate import migrate
from services.revision.tracker.prerequisites import breach
from tests.support.kandev import JOURNAL, schema_of
from tests.support.waiting import eventually

EVERY_TASK = "UPDATE {0} SET task_id = 't' WHERE task_id IS NULL; ALTER TABLE {0} ALTER task_id SET NOT NULL"
AUDIT = """
CREATE TABLE audited (session_id text, revision bigint);
CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- Before anybody may update conversation_session_revisions again.
    INSERT INTO audited SELECT session_id, revision FROM conversation_session_revisions WHERE session_id = 's1';
    RETURN NULL;
END $$;
CREATE TRIGGER "an ""audit"" of" AFTER UPDATE ON task_session_messages FOR EACH ROW EXECUTE FUNCTION audit();
"""
BOTH = """
CREATE FUNCTION both_ways() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    insert  into public."conversation_session_revisions" AS r VALUES (NEW.task_session_id, 1)
    ON CONFLICT (session_id) DO UPDATE SET revision = r.revision + 1;
    INSERT INTO conversation_message_versions VALUES (NEW.id, 1) ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER both_ways AFTER UPDATE ON task_session_messages FOR EACH ROW EXECUTE FUNCTION both_ways();
"""
ELSEWHERE = """
CREATE FUNCTION note_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO conversation_journal_meta VALUES (NEW.id, NEW.title) ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER note_task AFTER UPDATE ON tasks FOR EACH ROW EXECUTE FUNCTION note_task();
"""
WRITE = "UPDATE task_session_messages SET content = content || '!' WHERE id = 'm1'"


async def left_as(connection: asyncpg.Connection, url: str, schema: str) -> None:
    await detach(connection)
    assert await schema_of(url) == schema


async def test_a_trigger_that_only_reads_revisions_stays(kandev: asyncpg.Connection, empty_database_url: str) -> None:
    await kandev.execute(AUDIT)
    schema = await schema_of(empty_database_url)
    report = await migrate(kandev)
    assert "audit()" not in {trigger.function for trigger in report.replaced}
    await kandev.execute(WRITE)
    assert await kandev.fetchval("SELECT count(*) FROM audited") == 1
    await left_as(kandev, empty_database_url, schema)


async def test_comments_come_back_with_what_they_are_on(kandev: asyncpg.Connection, empty_database_url: str) -> None:
    await kandev.execute(
        """
        COMMENT ON TRIGGER conversation_source_turn_delete ON task_session_turns IS 'it''s \\ ours';
        COMMENT ON CONSTRAINT conversation_session_revisions_session_id_fkey ON conversation_session_revisions IS 'k';
        """
    )
    schema = await schema_of(empty_database_url)
    await migrate(kandev)
    await left_as(kandev, empty_database_url, schema)


async def test_a_trigger_whose_function_is_gone_is_not_made_again(
    kandev: asyncpg.Connection, empty_database_url: str
) -> None:
    await migrate(kandev)
    await kandev.execute("DROP FUNCTION conversation_source_bump()")
    await detach(kandev)
    await kandev.execute(WRITE)
    assert "conversation_source_" not in await schema_of(empty_database_url)


@pytest.mark.parametrize(
    ("used", "named", "end"),
    [
        (
            "CREATE FUNCTION mine() RETURNS text LANGUAGE sql BEGIN ATOMIC SELECT epoch FROM conversation.epoch; END",
            r"function mine\(\)",
            "DROP FUNCTION mine()",
        ),
        ("CREATE TABLE mine (e conversation.epoch)", "column e of table mine", "DROP TABLE mine"),
        (
            "CREATE TABLE mine (t text); CREATE INDEX by_task ON mine (conversation.stable(t))",
            "index by_task",
            "DROP TABLE mine",
        ),
        ("CREATE DOMAIN mine AS conversation.epoch", "type mine", "DROP DOMAIN mine"),
    ],
)
async def test_nothing_of_others_goes_along(
    kandev: asyncpg.Connection, empty_database_url: str, used: str, named: str, end: str
) -> None:
    schema = await schema_of(empty_database_url)
    await migrate(kandev)
    await kandev.execute(
        "CREATE FUNCTION conversation.stable(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT $1';" + used
    )
    assert (await planned(kandev)).obstacles
    with pytest.raises(StillInUse, match=named):
        await detach(kandev)
    await kandev.execute(end)
    await left_as(kandev, empty_database_url, schema)


async def test_a_view_on_a_column_of_ours_is_named(kandev: asyncpg.Connection, empty_database_url: str) -> None:
    await kandev.execute("ALTER TABLE task_session_messages DROP COLUMN prompt_seq")
    schema = await schema_of(empty_database_url)
    await migrate(kandev)
    await kandev.execute("CREATE VIEW mine AS SELECT prompt_seq FROM task_session_messages")
    with pytest.raises(StillInUse, match="view mine depends on column prompt_seq"):
        await detach(kandev)
    assert await breach(kandev) is None
    await kandev.execute("DROP VIEW mine")
    await left_as(kandev, empty_database_url, schema)


async def test_slots_of_others_stay(kandev: asyncpg.Connection) -> None:
    await migrate(kandev)
    slots = ("kandev_change_capture", "kandev_host_7_0a1b2c3d")
    try:
        for slot in slots:
            await kandev.execute("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", slot)
        await detach(kandev)
        left = await kandev.fetch("SELECT slot_name FROM pg_replication_slots WHERE slot_name = ANY ($1)", slots)
        assert [row[0] for row in left] == ["kandev_change_capture"]
    finally:
        await kandev.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = ANY ($1)", slots
        )


async def test_tasks_that_are_required_later_by_the_application_change_nothing(kandev: asyncpg.Connection) -> None:
    await migrate(kandev)
    for table in ("task_session_messages", "task_session_turns"):
        await kandev.execute(EVERY_TASK.format(table))
    assert await breach(kandev) is None
    await kandev.execute("ALTER TABLE task_session_turns DISABLE TRIGGER conversation_task_changed")
    assert "replica identity of public.task_session_turns" in str(await breach(kandev))


async def test_what_a_killed_run_required_is_no_longer_required(
    kandev: asyncpg.Connection, empty_database_url: str
) -> None:
    schema = await schema_of(empty_database_url)
    left = f"ALTER TABLE task_session_messages ADD CONSTRAINT {KNOWN} CHECK (task_id IS NOT NULL) NOT VALID"
    await kandev.execute(left)
    await migrate(kandev)
    await kandev.execute("UPDATE task_session_messages SET task_id = NULL WHERE id = 'm1'")
    await kandev.execute(left)
    await left_as(kandev, empty_database_url, schema)


async def test_a_row_without_task_that_comes_meanwhile_ends_the_requirement(
    kandev: asyncpg.Connection, empty_database_url: str
) -> None:
    """It was not committed when it was looked for."""
    for table in ("task_session_messages", "task_session_turns"):
        await kandev.execute(f"UPDATE {table} SET task_id = 't'")
    schema = await schema_of(empty_database_url)
    writer = await asyncpg.connect(empty_database_url)
    held = writer.transaction()
    await held.start()
    await writer.execute("UPDATE task_session_messages SET task_id = NULL WHERE id = 'm1'")
    attempt = asyncio.create_task(migrate(kandev, require_task=True))
    waiting = "SELECT cardinality(pg_blocking_pids($1)) > 0"
    await eventually(lambda: writer.fetchval(waiting, kandev.get_server_pid()))
    await held.commit()
    with pytest.raises(Unsuitable, match="rows of task_session_messages have no task_id"):
        await attempt
    await writer.execute("UPDATE task_session_messages SET task_id = NULL WHERE id = 'm2'")
    await writer.close()
    await left_as(kandev, empty_database_url, schema)


async def test_tasks_can_be_required_after_a_run_that_did_not_get_far(kandev: asyncpg.Connection) -> None:
    class Ended(Exception):
        pass

    def end(_: object) -> None:
        raise Ended

    with pytest.raises(Ended):
        await migrate(kandev, progress=end)
    for table in ("task_session_messages", "task_session_turns"):
        await kandev.execute(f"UPDATE {table} SET task_id = 't'")
    await migrate(kandev, require_task=True)
    assert await breach(kandev) is None


async def test_a_trigger_that_counts_for_the_journal_as_well_does_not_come_back(kandev: asyncpg.Connection) -> None:
    await kandev.execute(JOURNAL + BOTH)
    await migrate(kandev)
    await drop_journal(kandev, lambda _: None)
    await detach(kandev)
    await kandev.execute(WRITE)


async def test_a_trigger_on_any_table_that_needs_the_journal_goes_with_it(kandev: asyncpg.Connection) -> None:
    await kandev.execute(JOURNAL + ELSEWHERE)
    await migrate(kandev)
    gone = await drop_journal(kandev, lambda _: None)
    assert ("tasks", "note_task") in {(trigger.relation, trigger.name) for trigger in gone.triggers}
    await kandev.execute("UPDATE tasks SET title = 'new'")
