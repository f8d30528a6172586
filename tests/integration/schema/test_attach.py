"""The application's own database: attached beside what it has, and left again as it was."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

import asyncpg
import pytest
import pytest_asyncio

from services.revision.schema.attaching import Unsuitable
from services.revision.schema.catalogue import found
from services.revision.schema.detach import Detachment, Step, StillInUse, detach, planned
from services.revision.schema.inventory import Inventory, Thing
from services.revision.schema.migrate import migrate, status
from services.revision.schema.numbered import Migration, known_migrations
from services.revision.schema.preview import preview
from services.revision.schema.triggers import REVISION_TRIGGERS, SOURCE_TABLES
from services.revision.tracker.prerequisites import breach
from tests.support.kandev import FILL, JOURNAL, SCHEMA, rows_of, schema_of
from tests.support.waiting import eventually

INVENTORY = Inventory(known_migrations())
SESSIONS, MESSAGES = 20, 600


COMES_BACK = (
    "CREATE TRIGGER conversation_source_message_insert AFTER INSERT ON task_session_messages "
    "FOR EACH ROW EXECUTE FUNCTION conversation_source_bump()"
)
WAITING = "SELECT cardinality(pg_blocking_pids($1)) > 0"


@dataclass
class Kandev:
    """The application's database, with rows. `schema` and `rows`: as they were before anything of ours."""

    url: str
    connection: asyncpg.Connection
    schema: str
    rows: dict[str, str]

    @property
    def pid(self) -> int:
        """The server's process behind the connection."""
        return int(self.connection.get_server_pid())

    async def unchanged(self) -> None:
        """Asserts that nothing is to be seen of ours, or of what we did."""
        assert await schema_of(self.url) == self.schema
        assert await rows_of(self.connection) == self.rows

    async def triggers(self) -> set[str]:
        """Names of the triggers on messages."""
        rows = await self.connection.fetch(
            "SELECT tgname FROM pg_trigger WHERE tgrelid = 'task_session_messages'::regclass AND NOT tgisinternal"
        )
        return {row["tgname"] for row in rows}

    async def revision(self, session: str) -> int:
        """A session's revision."""
        query = "SELECT revision FROM conversation_session_revisions WHERE session_id = $1"
        return int(await self.connection.fetchval(query, session))


async def opened(url: str, *more: str) -> Kandev:
    connection = await asyncpg.connect(url)
    for statements in (SCHEMA, FILL.format(sessions=SESSIONS, messages=MESSAGES), *more):
        await connection.execute(statements)
    return Kandev(url, connection, await schema_of(url), await rows_of(connection))


@pytest_asyncio.fixture
async def kandev(empty_database_url: str) -> AsyncIterator[Kandev]:
    """The application's database, before it is attached."""
    database = await opened(empty_database_url)
    yield database
    await database.connection.close()


class Interrupted(Exception):
    """Raised between two steps."""


def interrupting(at: int) -> Callable[[object], None]:
    """A listener to steps that fails at the one with this number."""
    seen = 0

    def listen(step: object) -> None:
        nonlocal seen
        seen += 1
        if seen == at:
            raise Interrupted(step)

    return listen


async def test_what_is_attached_is_left_again_as_it_was(kandev: Kandev) -> None:
    report = await migrate(kandev.connection)
    assert {(trigger.relation, trigger.name) for trigger in report.replaced} == REVISION_TRIGGERS
    assert (await migrate(kandev.connection)).replaced == ()
    assert await breach(kandev.connection) is None
    await detach(kandev.connection)
    await kandev.unchanged()
    assert (await status(kandev.connection)).current == 0
    assert await planned(kandev.connection) == Detachment()


async def test_it_can_be_attached_and_left_many_times(kandev: Kandev) -> None:
    for _ in range(3):
        await migrate(kandev.connection)
        await detach(kandev.connection)
    await kandev.unchanged()


async def test_a_change_counts_once_whoever_counts(kandev: Kandev) -> None:
    change = "UPDATE task_session_messages SET content = content || '!' WHERE id = 'm20'"
    for step, expected in ((None, 8), (migrate, 9), (detach, 10)):
        if step is not None:
            await step(kandev.connection)
        await kandev.connection.execute(change)
        assert await kandev.revision("s0") == expected


async def test_no_change_goes_uncounted_while_triggers_are_replaced(kandev: Kandev) -> None:
    """Writers go on all the while; afterwards the revision has moved at least once for each of their changes."""
    stop = asyncio.Event()

    async def writer(number: int) -> int:
        connection = await asyncpg.connect(kandev.url)
        count = 0
        while not stop.is_set():
            await connection.execute(
                "UPDATE task_session_messages SET content = 'x' WHERE id = $1", f"m{SESSIONS + number}"
            )
            count += 1
        await connection.close()
        return count

    before = [await kandev.revision(f"s{number}") for number in range(4)]
    writing = [asyncio.create_task(writer(number)) for number in range(4)]
    await migrate(kandev.connection)
    await detach(kandev.connection)
    stop.set()
    counts = await asyncio.gather(*writing)
    after = [await kandev.revision(f"s{number}") for number in range(4)]
    assert all(a - b >= count > 0 for a, b, count in zip(after, before, counts, strict=True))
    assert await schema_of(kandev.url) == kandev.schema


@pytest.mark.parametrize("what", ["attaching", "replacing", "leaving"])
async def test_no_writer_waits_longer_than_a_second_for_a_lock(kandev: Kandev, what: str) -> None:
    """While another transaction holds every table, whoever wants them gives way in time to those behind it."""
    if what != "attaching":
        await migrate(kandev.connection)
    if what == "replacing":
        await kandev.connection.execute(COMES_BACK)
    holder, writer = [await asyncpg.connect(kandev.url) for _ in range(2)]
    transaction = holder.transaction()
    await transaction.start()
    await holder.execute(f"LOCK TABLE {', '.join(SOURCE_TABLES)} IN ROW EXCLUSIVE MODE")
    working = asyncio.ensure_future((detach if what == "leaving" else migrate)(kandev.connection))
    await writer.execute("SET lock_timeout = '1s'")
    for _ in range(3):
        await eventually(lambda: holder.fetchval(WAITING, kandev.pid))
        for table in SOURCE_TABLES:
            async with writer.transaction():
                await writer.execute(f"LOCK TABLE {table} IN ROW EXCLUSIVE MODE")
    assert not working.done()
    await transaction.commit()
    await working
    for connection in (holder, writer):
        await connection.close()


async def test_triggers_that_count_under_other_names_are_replaced_and_others_stay(kandev: Kandev) -> None:
    await kandev.connection.execute(
        """
        ALTER TRIGGER conversation_source_message_update ON task_session_messages RENAME TO bump_on_update;
        ALTER TABLE task_session_messages DISABLE TRIGGER bump_on_update;
        CREATE TRIGGER seen BEFORE UPDATE ON task_session_messages FOR EACH ROW EXECUTE FUNCTION touch_task();
        """
    )
    kandev.schema = await schema_of(kandev.url)
    await migrate(kandev.connection)
    triggers = await kandev.triggers()
    assert "seen" in triggers
    assert not {"bump_on_update", "conversation_source_message_insert"} & triggers
    await detach(kandev.connection)
    await kandev.unchanged()


async def test_triggers_that_come_back_are_replaced_again(kandev: Kandev) -> None:
    """The application makes its triggers at each of its starts."""
    await migrate(kandev.connection)
    await kandev.connection.execute(COMES_BACK)
    assert [trigger.name for trigger in (await migrate(kandev.connection)).replaced] == [
        "conversation_source_message_insert"
    ]
    await detach(kandev.connection)
    await kandev.unchanged()


async def test_what_the_application_changes_meanwhile_stays(kandev: Kandev) -> None:
    changes = """
        ALTER TABLE task_session_messages ADD COLUMN model text;
        CREATE INDEX idx_model ON task_session_messages (model);
        ALTER TABLE tasks DROP COLUMN priority;
    """
    await migrate(kandev.connection)
    await kandev.connection.execute(changes)
    await detach(kandev.connection)
    attached = await schema_of(kandev.url)
    await kandev.connection.execute(
        "ALTER TABLE task_session_messages DROP COLUMN model; ALTER TABLE tasks ADD COLUMN priority integer DEFAULT 0"
    )
    assert "idx_model" in attached
    assert "priority integer" not in attached
    assert await kandev.connection.fetchval("SELECT count(*) FROM task_session_messages") == MESSAGES


@pytest.mark.parametrize(
    "different",
    [
        "ALTER TABLE conversation_session_revisions DROP CONSTRAINT conversation_session_revisions_session_id_fkey",
        """ALTER TABLE conversation_session_revisions DROP CONSTRAINT conversation_session_revisions_session_id_fkey,
           ADD CONSTRAINT conversation_session_revisions_session_id_fkey FOREIGN KEY (session_id)
           REFERENCES task_sessions (id) ON DELETE CASCADE NOT VALID""",
        "ALTER TABLE conversation_session_revisions SET (fillfactor = 70, autovacuum_enabled = true)",
        "ALTER TABLE task_session_messages REPLICA IDENTITY FULL; "
        "ALTER TABLE task_session_turns REPLICA IDENTITY NOTHING",
        "CREATE UNIQUE INDEX own ON task_session_turns (id, started_at); "
        "ALTER TABLE task_session_turns REPLICA IDENTITY USING INDEX own",
        "ALTER TABLE workspaces DROP COLUMN owner_id; ALTER TABLE task_session_messages DROP COLUMN type",
        "DROP TABLE task_session_prompt_seq",
        "DROP TABLE conversation_session_revisions",
        "DROP TABLE task_session_turns",
        "CREATE INDEX task_session_messages_keyset ON task_session_messages (task_session_id)",
        "CREATE SCHEMA gateway_of_another; CREATE VIEW mine AS SELECT id FROM task_session_messages",
    ],
)
async def test_a_database_that_differs_is_left_as_it_was(empty_database_url: str, different: str) -> None:
    kandev = await opened(empty_database_url, different)
    await migrate(kandev.connection)
    await detach(kandev.connection)
    assert await schema_of(kandev.url) == kandev.schema
    await kandev.connection.close()


async def test_prompts_without_ordinals_get_them_and_keep_them_where_the_column_stays(empty_database_url: str) -> None:
    kandev = await opened(
        empty_database_url, "UPDATE task_session_messages SET prompt_seq = 0; DELETE FROM task_session_prompt_seq"
    )
    plan = await preview(kandev.connection)
    assert any(change.startswith("give 60 prompts the ordinals") for change in plan.changes)
    await migrate(kandev.connection)
    await detach(kandev.connection)
    numbered = "SELECT count(*) FROM task_session_messages WHERE prompt_seq > 0"
    assert await kandev.connection.fetchval(numbered) == MESSAGES // 10
    assert await schema_of(kandev.url) == kandev.schema
    await kandev.connection.close()


async def test_a_column_that_was_not_there_goes_with_its_numbers(empty_database_url: str) -> None:
    kandev = await opened(empty_database_url, "ALTER TABLE task_session_messages DROP COLUMN prompt_seq")
    await migrate(kandev.connection)
    await detach(kandev.connection)
    await kandev.unchanged()
    await kandev.connection.close()


async def test_a_task_may_stay_null(kandev: Kandev) -> None:
    await migrate(kandev.connection)
    standing = await found(kandev.connection, INVENTORY.tables)
    assert "task_id" in standing.nullable("task_session_messages")
    index = standing.get("index", "task_session_messages", "task_session_messages_identity")
    assert index is not None
    assert "task_id" not in index
    await kandev.connection.execute("UPDATE task_session_messages SET task_id = NULL WHERE id = 'm1'")


async def test_a_task_is_required_on_request_and_no_longer_afterwards(kandev: Kandev) -> None:
    with pytest.raises(Unsuitable, match="rows of task_session_messages have no task_id"):
        await migrate(kandev.connection, require_task=True)
    for table in ("task_session_messages", "task_session_turns"):
        await kandev.connection.execute(f"UPDATE {table} SET task_id = 't' WHERE task_id IS NULL")
    kandev.rows = await rows_of(kandev.connection)
    await migrate(kandev.connection, require_task=True)
    standing = await found(kandev.connection, INVENTORY.tables)
    assert "task_id" not in standing.nullable("task_session_messages") | standing.nullable("task_session_turns")
    assert "task_id" in str(standing.get("index", "task_session_turns", "task_session_turns_identity"))
    assert await breach(kandev.connection) is None
    await detach(kandev.connection)
    await kandev.unchanged()


@pytest.mark.parametrize(
    ("different", "sentence"),
    [
        ("ALTER TABLE task_session_messages ALTER COLUMN author_type DROP NOT NULL", "author_type SET NOT NULL"),
        ("ALTER TABLE task_session_messages DROP COLUMN updated_at", "without the columns updated_at"),
    ],
)
async def test_tables_that_cannot_be_attached_are_refused_untouched(
    empty_database_url: str, different: str, sentence: str
) -> None:
    kandev = await opened(empty_database_url, different)
    for attempt in (preview, migrate):
        with pytest.raises(Unsuitable, match=sentence):
            await attempt(kandev.connection)
    await kandev.unchanged()
    await kandev.connection.close()


async def test_a_preview_writes_nothing_and_names_what_comes(kandev: Kandev) -> None:
    plan = await preview(kandev.connection)
    await kandev.unchanged()
    assert (plan.version, plan.pending) == (0, known_migrations())
    assert set(plan.kept) == set(INVENTORY.tables) - {"workspace_members"}
    assert "make the table workspace_members with its indexes and triggers" in plan.changes
    assert "build the index task_session_messages_keyset on task_session_messages, while others write" in plan.changes
    assert any("task_session_messages_identity, without task_id" in change for change in plan.changes)
    for table, name in REVISION_TRIGGERS:
        assert any(f"in the place of {name} on {table}" in change for change in plan.changes)
    await migrate(kandev.connection)
    after = await preview(kandev.connection)
    assert (after.version, after.pending, after.changes) == (known_migrations()[-1].version, (), ())


async def test_a_preview_names_everything_that_a_migration_makes(kandev: Kandev) -> None:
    before = await found(kandev.connection, INVENTORY.tables)
    changes = " ".join((await preview(kandev.connection)).changes)
    await migrate(kandev.connection)
    after = await found(kandev.connection, INVENTORY.tables)
    made = [
        name or table
        for kind, table, name in set(after.entries) - set(before.entries)
        if kind in {"column", "index", "constraint", "trigger"} and before.holds(table)
    ]
    assert made
    assert [name for name in made if name not in changes] == []


async def test_the_inventory_names_what_the_files_make(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    standing = await found(connection, INVENTORY.tables)
    made = {
        Thing(kind, table, name)
        for kind, table, name in standing.entries
        if kind == "trigger" or (kind == "index" and not name.endswith("_pkey"))
    }
    named = {thing for thing in INVENTORY.things if thing.kind in {"trigger", "index"}}
    assert made == {thing for thing in named if thing.name != "conversation_task_changed"}
    public = await connection.fetch(
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'"
    )
    assert {row["relname"] for row in public} == set(INVENTORY.tables)
    await connection.close()


@pytest.mark.parametrize("share", [0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
async def test_leaving_goes_on_where_it_was_interrupted(kandev: Kandev, share: float) -> None:
    await migrate(kandev.connection)
    steps = (await planned(kandev.connection)).steps
    at = 1 + round(share * (len(steps) - 1))
    with pytest.raises(Interrupted):
        await detach(kandev.connection, interrupting(at))
    counting = {"conversation_rows_inserted", "conversation_source_message_insert"} & await kandev.triggers()
    assert len(counting) == 1
    await detach(kandev.connection)
    await kandev.unchanged()


@pytest.mark.parametrize("version", [migration.version for migration in known_migrations()])
async def test_attaching_goes_on_where_it_was_interrupted(kandev: Kandev, version: int) -> None:
    def progress(migration: Migration) -> None:
        if migration.version == version:
            raise Interrupted

    with pytest.raises(Interrupted):
        await migrate(kandev.connection, progress=progress)
    await migrate(kandev.connection)
    assert await breach(kandev.connection) is None
    await detach(kandev.connection)
    await kandev.unchanged()


async def test_what_is_half_attached_can_be_left(kandev: Kandev) -> None:
    with pytest.raises(Interrupted):
        await migrate(kandev.connection, progress=interrupting(4))
    await detach(kandev.connection)
    await kandev.unchanged()


@pytest.mark.parametrize("died", ["in the transaction", "at an index"])
async def test_leaving_survives_the_loss_of_its_connection(kandev: Kandev, died: str) -> None:
    await migrate(kandev.connection)
    doomed = await asyncpg.connect(kandev.url)
    wanted = "drop the index" if died == "at an index" else "drop the publication"

    def listen(step: Step) -> None:
        if step.text.startswith(wanted):
            doomed.terminate()

    with pytest.raises((asyncpg.InterfaceError, asyncpg.PostgresConnectionError, ConnectionError)):
        await detach(doomed, listen)
    await detach(kandev.connection)
    await kandev.unchanged()


async def test_nothing_is_taken_away_from_under_a_service(kandev: Kandev) -> None:
    await migrate(kandev.connection)
    service = await asyncpg.connect(kandev.url, server_settings={"application_name": "kandev-conversation/reader"})
    with pytest.raises(StillInUse, match=r"stop what works on this database first: kandev-conversation/reader"):
        await detach(kandev.connection)
    assert (await status(kandev.connection)).current == known_migrations()[-1].version
    await service.close()


async def test_nothing_of_others_goes_with_the_schemas(kandev: Kandev) -> None:
    await migrate(kandev.connection)
    await kandev.connection.execute("CREATE VIEW public.epochs AS SELECT epoch FROM conversation.epoch")
    with pytest.raises(StillInUse, match="epochs"):
        await detach(kandev.connection)
    await kandev.connection.execute("DROP VIEW public.epochs")
    await detach(kandev.connection)
    await kandev.unchanged()


async def test_rows_of_a_database_of_our_own_stay_where_they_are(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    await connection.execute(
        """
        INSERT INTO workspaces (id) VALUES ('w'); INSERT INTO tasks (id, workspace_id) VALUES ('t', 'w');
        INSERT INTO task_sessions (id, task_id) VALUES ('s', 't');
        INSERT INTO task_session_messages (id, task_session_id, task_id, author_type) VALUES ('m1', 's', 't', 'user');
        """
    )
    await detach(connection)
    stays = await connection.fetch(
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'"
    )
    gone = {"conversation_session_revisions", "task_session_prompt_seq"}
    assert {row["relname"] for row in stays} == set(INVENTORY.tables) - gone
    await migrate(connection)
    assert await breach(connection) is None
    await connection.execute(
        "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type) VALUES ('m2', 's', 't', 'user')"
    )
    ordinals = await connection.fetch("SELECT id, prompt_seq FROM task_session_messages ORDER BY id")
    assert [tuple(row) for row in ordinals] == [("m1", 1), ("m2", 2)]
    await connection.close()


async def test_what_an_earlier_version_did_not_remember_is_not_guessed(database_url: str) -> None:
    """A database that was migrated before there was a memory: what stands there is not what stood there before."""
    connection = await asyncpg.connect(database_url)
    await connection.execute("DROP TABLE conversation.before")
    await connection.execute("DELETE FROM conversation.migrations WHERE version >= 13")
    await migrate(connection)
    assert await connection.fetchval("SELECT count(*) FROM conversation.before") == 0
    await detach(connection)
    assert await connection.fetchval("SELECT to_regclass('task_session_messages') IS NOT NULL")
    triggers = "SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal"
    assert await connection.fetchval(triggers) == 0
    await connection.close()


async def test_a_writer_that_keeps_the_counter_itself_keeps_its_ordinals(kandev: Kandev) -> None:
    """As the application does it: the counter first, then the message, in one transaction."""
    await migrate(kandev.connection)
    ordinals = []
    for number in range(3):
        async with kandev.connection.transaction():
            ordinal = await kandev.connection.fetchval(
                """
                INSERT INTO task_session_prompt_seq AS c (task_session_id, last_seq) VALUES ('s1', 1)
                ON CONFLICT (task_session_id) DO UPDATE SET last_seq = c.last_seq + 1 RETURNING last_seq
                """
            )
            await kandev.connection.execute(
                """
                INSERT INTO task_session_messages (id, task_session_id, author_type, content, created_at, prompt_seq)
                VALUES ($1, 's1', 'user', '', timezone('UTC', clock_timestamp()), $2)
                """,
                f"new{number}",
                ordinal,
            )
        ordinals.append(ordinal)
    stored = await kandev.connection.fetch(
        "SELECT prompt_seq FROM task_session_messages WHERE id LIKE 'new%' ORDER BY id"
    )
    assert [row["prompt_seq"] for row in stored] == ordinals == [4, 5, 6]
    with pytest.raises(asyncpg.PostgresError, match="brings ordinal 6, but 7 is due"):
        await kandev.connection.execute(
            "INSERT INTO task_session_messages (id, task_session_id, author_type, content, prompt_seq) "
            "VALUES ('late', 's1', 'user', '', 6)"
        )


def texts(steps: Sequence[Step]) -> list[str]:
    """What the steps say."""
    return [step.text for step in steps]


async def test_the_journal_is_no_matter_of_migrating(empty_database_url: str) -> None:
    kandev = await opened(empty_database_url, JOURNAL)
    await migrate(kandev.connection)
    assert "conversation_journal_message" in await kandev.triggers()
    assert "drop the schema conversation with all that is in it" in texts((await planned(kandev.connection)).last)
    await detach(kandev.connection)
    await kandev.unchanged()
    await kandev.connection.close()
