"""Attaching, giving up the journal, and leaving again, as a person does it."""

import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from deploy.local import postgres
from deploy.local.postgres import PostgresServer
from services.revision.cutover.files import LEGACY_FILES
from services.revision.cutover.tables import LEGACY_TABLES
from services.revision.schema.numbered import known_migrations
from tests.integration.cli.command import Ended, ended, run, run_with_input, started
from tests.support.kandev import FILL, JOURNAL, SCHEMA, rows_of, schema_of
from tests.support.waiting import eventually

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'"


@pytest.fixture
async def kandev(empty_database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """The application's own database, with its journal."""
    connection = await asyncpg.connect(empty_database_url)
    for statements in (SCHEMA, FILL.format(sessions=5, messages=100), JOURNAL):
        await connection.execute(statements)
    yield connection
    await connection.close()


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """The application's folder, with the journal's files."""
    for name in LEGACY_FILES:
        (tmp_path / name).write_bytes(b"journal")
    return tmp_path


async def command(url: str, *arguments: str | Path) -> Ended:
    return await run(*arguments, KANDEV_DATABASE_URL=url)


def left(folder: Path) -> set[str]:
    """Names of what is in the folder."""
    return {path.name for path in folder.iterdir()}


async def journal_tables(connection: asyncpg.Connection) -> int:
    found = await connection.fetchval("SELECT count(*) FROM pg_class WHERE relname = ANY ($1)", list(LEGACY_TABLES))
    return int(found)


async def test_a_plan_names_what_would_come_and_writes_nothing(
    empty_database_url: str, kandev: asyncpg.Connection, host: Path
) -> None:
    before = await schema_of(empty_database_url)
    shown = await command(empty_database_url, "migrate", "--plan")
    assert shown.code == 0
    assert f"{len(known_migrations())} files would be applied" in shown.out
    assert "in the place of conversation_source_message_insert on task_session_messages" in shown.out
    assert all(f"\n  {table}\n" in shown.out for table in LEGACY_TABLES)
    as_json = json.loads((await command(empty_database_url, "migrate", "--plan", "--json")).out)
    assert as_json["legacy"] == list(LEGACY_TABLES)
    assert "task_session_messages" in as_json["kept"]
    assert all(change in shown.out for change in as_json["changes"])
    given_up = await command(empty_database_url, "cutover", "--plan", "--host-folder", host)
    assert given_up.code == 0
    assert all(f"drop the table {table} " in given_up.out for table in LEGACY_TABLES)
    assert all(f"remove {name} (7 bytes)" in given_up.out for name in LEGACY_FILES)
    nothing = await command(empty_database_url, "detach", "--plan")
    assert nothing.out.startswith("There is nothing of ours")
    assert await schema_of(empty_database_url) == before
    assert left(host) == set(LEGACY_FILES)


async def test_attached_and_left(empty_database_url: str, kandev: asyncpg.Connection) -> None:
    before, rows = await schema_of(empty_database_url), await rows_of(kandev)
    done = await command(empty_database_url, "migrate")
    assert done.code == 0
    assert "replaced the trigger conversation_source_turn_delete of task_session_turns" in done.out
    again = await command(empty_database_url, "migrate", "--plan")
    assert "There is nothing to do." in again.out
    plan = await command(empty_database_url, "detach", "--plan")
    assert "make the trigger conversation_source_turn_delete of task_session_turns again" in plan.out
    left = await command(empty_database_url, "detach", "--yes")
    assert left.code == 0
    assert [f"  {line}" for line in left.out.splitlines()[:-1]] == plan.out.splitlines()[1:-1]
    assert (await schema_of(empty_database_url), await rows_of(kandev)) == (before, rows)


@pytest.mark.parametrize("name", ["detach", "cutover"])
async def test_what_cannot_be_had_back_is_asked_about(
    empty_database_url: str, kandev: asyncpg.Connection, name: str
) -> None:
    await command(empty_database_url, "migrate")
    before = await schema_of(empty_database_url)
    for answer in (b"", b"n\n"):
        refused = await run_with_input(answer, name, KANDEV_DATABASE_URL=empty_database_url)
        assert refused.code == 130
        assert "  drop the t" in refused.out
        assert await schema_of(empty_database_url) == before
    assert (await run_with_input(b"y\n", name, KANDEV_DATABASE_URL=empty_database_url)).code == 0
    assert await schema_of(empty_database_url) != before


async def test_the_journal_is_given_up(empty_database_url: str, kandev: asyncpg.Connection, host: Path) -> None:
    rows = await rows_of(kandev)
    for _ in range(2):
        done = await command(empty_database_url, "cutover", "--yes", "--host-folder", host)
        assert (done.code, done.err) == (0, "")
        assert await journal_tables(kandev) == 0
        assert left(host) == set()
        assert await rows_of(kandev) == rows


async def test_a_new_database_takes_the_same_way(empty_database_url: str, tmp_path: Path) -> None:
    done = await command(empty_database_url, "cutover", "--host-folder", tmp_path / "nowhere")
    assert done.code == 0
    assert "There is no journal" in done.out
    assert f"There is no folder {tmp_path / 'nowhere'}" in done.err
    assert "There is nothing to do." in (await command(empty_database_url, "migrate", "--plan")).out


async def test_what_is_no_file_is_reported_each_time(
    empty_database_url: str, kandev: asyncpg.Connection, host: Path
) -> None:
    (host / LEGACY_FILES[1]).unlink()
    (host / LEGACY_FILES[1]).symlink_to(host / LEGACY_FILES[0])
    for _ in range(2):
        done = await command(empty_database_url, "cutover", "--yes", "--host-folder", host)
        assert done.code == 1
        assert done.err == f"Not removed:\n  {LEGACY_FILES[1]}: it is a symbolic link\n"
        assert left(host) == {LEGACY_FILES[1]}
        assert await journal_tables(kandev) == 0


async def test_files_stay_while_the_tables_do(empty_database_url: str, kandev: asyncpg.Connection, host: Path) -> None:
    await kandev.execute("CREATE VIEW reports AS SELECT * FROM conversation_session_events")
    refused = await command(empty_database_url, "cutover", "--yes", "--host-folder", host)
    assert refused.code == 2
    assert "reports" in refused.err
    assert await journal_tables(kandev) == 5
    assert left(host) == set(LEGACY_FILES)


@pytest.mark.parametrize("arguments", [["--plan"], ["--yes"], []])
async def test_a_journal_stays_where_nothing_could_be_followed(
    postgres_server: PostgresServer, host: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    """It is told before anything is asked or done: not even a file of the schema is applied."""
    postgres_server.stop()
    monkeypatch.setitem(postgres.SETTINGS, "wal_level", "replica")
    postgres_server.start()
    connection = await asyncpg.connect(postgres_server.url)
    for statements in (SCHEMA, FILL.format(sessions=5, messages=100), JOURNAL):
        await connection.execute(statements)
    before = await schema_of(postgres_server.url)
    refused = await command(postgres_server.url, "cutover", *arguments, "--host-folder", host)
    assert refused.code == 2
    assert refused.out == ""
    assert refused.err == (
        "Error: The journal was not given up: changes could not be followed "
        "(wal_level is replica: set wal_level=logical and restart PostgreSQL).\n"
    )
    assert await schema_of(postgres_server.url) == before
    assert left(host) == set(LEGACY_FILES)
    await connection.close()


async def test_a_killed_cutover_is_done_by_the_next(
    empty_database_url: str, kandev: asyncpg.Connection, host: Path
) -> None:
    """Killed where it waits: for the table of a writer, inside its transaction."""
    holder = kandev.transaction()
    await holder.start()
    await kandev.execute("INSERT INTO conversation_journal_meta VALUES ('k', 'v')")
    process = await started("cutover", "--yes", "--host-folder", host, KANDEV_DATABASE_URL=empty_database_url)
    observer = await asyncpg.connect(empty_database_url)
    await eventually(lambda: observer.fetchval(WAITING, "kandev-conversation/cutover"))
    process.send_signal(signal.SIGKILL)
    await ended(process)
    await holder.commit()
    assert await journal_tables(observer) == 5
    assert left(host) == set(LEGACY_FILES)
    await observer.close()
    assert (await command(empty_database_url, "cutover", "--yes", "--host-folder", host)).code == 0
    assert await journal_tables(kandev) == 0
    assert left(host) == set()


async def test_a_killed_detach_is_done_by_the_next(empty_database_url: str, kandev: asyncpg.Connection) -> None:
    """Killed where it waits: for an old snapshot, at an index."""
    before = await schema_of(empty_database_url)
    await command(empty_database_url, "migrate")
    reader = kandev.transaction(isolation="repeatable_read", readonly=True)
    await reader.start()
    await kandev.fetchval("SELECT count(*) FROM tasks")
    process = await started("detach", "--yes", KANDEV_DATABASE_URL=empty_database_url)
    observer = await asyncpg.connect(empty_database_url)
    await eventually(lambda: observer.fetchval(WAITING, "kandev-conversation/detach"))
    process.send_signal(signal.SIGKILL)
    await ended(process)
    await reader.rollback()
    await observer.close()
    await eventually(lambda: kandev.fetchval("SELECT count(*) = 0 FROM pg_locks WHERE locktype = 'advisory'"))
    assert (await command(empty_database_url, "detach", "--yes")).code == 0
    assert await schema_of(empty_database_url) == before


async def test_a_service_at_work_is_named(empty_database_url: str, kandev: asyncpg.Connection) -> None:
    await command(empty_database_url, "migrate")
    service = await asyncpg.connect(
        empty_database_url, server_settings={"application_name": "kandev-conversation/revision"}
    )
    refused = await command(empty_database_url, "detach", "--yes")
    assert refused.code == 2
    assert "kandev-conversation/revision (process " in refused.err
    assert "Before that:" in (await command(empty_database_url, "detach", "--plan")).out
    await service.close()


async def test_a_required_task_that_is_missing_is_a_sentence(
    empty_database_url: str, kandev: asyncpg.Connection
) -> None:
    refused = await command(empty_database_url, "migrate", "--require-task")
    assert refused.code == 2
    assert "rows of task_session_messages have no task_id" in refused.err
    planned = await command(empty_database_url, "migrate", "--plan", "--require-task")
    assert "make task_id of task_session_messages NOT NULL, as asked" in planned.out
