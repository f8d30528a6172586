"""The runner: once, in order, resumable, one at a time, and never on a database it does not understand."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from services.revision.schema.migrate import DatabaseNewer, MigrationChanged, SchemaStatus, migrate, status
from services.revision.schema.numbered import OUTSIDE_A_TRANSACTION, Migration, SchemaError, known_migrations

LATEST = known_migrations()[-1].version
ALL = tuple(m.version for m in known_migrations())


async def opened(url: str) -> asyncpg.Connection:
    return await asyncpg.connect(url)


async def test_an_empty_database_is_brought_up_to_date_once(empty_database_url: str) -> None:
    connection = await opened(empty_database_url)
    assert await status(connection) == SchemaStatus(0, LATEST)
    seen: list[int] = []
    report = await migrate(connection, progress=lambda m: seen.append(m.version))
    assert (report.applied, report.version, tuple(seen)) == (ALL, LATEST, ALL)
    assert await status(connection) == SchemaStatus(LATEST, LATEST)
    assert (await migrate(empty_database_url)).applied == ()
    await connection.close()


async def test_two_runners_at_once_take_turns(empty_database_url: str) -> None:
    reports = await asyncio.gather(migrate(empty_database_url), migrate(empty_database_url))
    assert sorted(report.applied for report in reports) == [(), ALL]


async def test_a_newer_database_is_refused_with_both_versions(empty_database_url: str) -> None:
    await migrate(empty_database_url)
    with pytest.raises(DatabaseNewer, match=rf"version {LATEST}, .* up to {LATEST - 1}: run") as refused:
        await migrate(empty_database_url, migrations=known_migrations()[:-1])
    assert (refused.value.database, refused.value.program) == (LATEST, LATEST - 1)


async def test_a_changed_file_is_refused(empty_database_url: str) -> None:
    await migrate(empty_database_url)
    first, *rest = known_migrations()
    with pytest.raises(MigrationChanged, match=r"migration 1 \(tables\) differs"):
        await migrate(empty_database_url, migrations=(replace(first, checksum="0"), *rest))


async def test_a_file_that_fails_leaves_nothing_of_itself(empty_database_url: str) -> None:
    broken = Migration(LATEST + 1, "broken", "CREATE TABLE half (id int); SELECT 1 / 0;", "x")
    with pytest.raises(asyncpg.DivisionByZeroError):
        await migrate(empty_database_url, migrations=(*known_migrations(), broken))
    connection = await opened(empty_database_url)
    assert await connection.fetchval("SELECT to_regclass('half')") is None
    assert (await status(connection)).current == LATEST
    await connection.close()
    assert (await migrate(empty_database_url)).applied == ()


async def test_an_index_build_that_failed_is_done_again(empty_database_url: str) -> None:
    connection = await opened(empty_database_url)
    await connection.execute("CREATE TABLE numbers (n int); INSERT INTO numbers VALUES (1), (1)")
    build = "-- run: outside a transaction\nCREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS numbers_n ON numbers (n);"
    migrations = (Migration(1, "numbers", build, "x"),)
    with pytest.raises(asyncpg.UniqueViolationError):
        await migrate(connection, migrations=migrations)
    valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'numbers_n'::regclass"
    assert await connection.fetchval(valid) is False
    await connection.execute("DELETE FROM numbers")
    assert (await migrate(connection, migrations=migrations)).applied == (1,)
    assert await connection.fetchval(valid) is True
    await connection.close()


@pytest.mark.parametrize("head", ["", f"{OUTSIDE_A_TRANSACTION}\n"], ids=["whole", "one by one"])
async def test_a_file_gives_way_to_writers_until_its_locks_are_free(
    empty_database_url: str, until_blocked: Any, head: str
) -> None:
    holder, connection = await opened(empty_database_url), await opened(empty_database_url)
    await holder.execute("CREATE TABLE busy (n int)")
    transaction = holder.transaction()
    await transaction.start()
    await holder.execute("INSERT INTO busy VALUES (1)")
    alter = Migration(1, "alter", f"{head}ALTER TABLE busy ADD COLUMN m int;", "x")
    pid = await connection.fetchval("SELECT pg_backend_pid()")
    running = asyncio.create_task(migrate(connection, migrations=(alter,)))
    observer = await opened(empty_database_url)
    await until_blocked(observer, pid)
    await until_blocked(observer, pid, False)
    assert not running.done()
    await transaction.commit()
    assert (await running).applied == (1,)
    for each in (holder, connection, observer):
        await each.close()


async def test_tables_that_are_there_keep_their_rows_and_get_their_numbers(empty_database_url: str) -> None:
    """A database from before ordinals and revisions, with rows in it."""
    connection = await opened(empty_database_url)
    await connection.execute(
        """
        CREATE TABLE workspaces (id text PRIMARY KEY, name text NOT NULL DEFAULT '');
        CREATE TABLE tasks (id text PRIMARY KEY, workspace_id text NOT NULL, title text NOT NULL DEFAULT '');
        CREATE TABLE task_sessions (id text PRIMARY KEY, task_id text NOT NULL);
        CREATE TABLE task_session_messages (
            id text PRIMARY KEY, task_session_id text NOT NULL REFERENCES task_sessions ON DELETE CASCADE,
            task_id text NOT NULL, turn_id text, author_type text NOT NULL, content text NOT NULL DEFAULT '',
            created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL);
        INSERT INTO workspaces VALUES ('w'); INSERT INTO tasks VALUES ('t', 'w');
        INSERT INTO task_sessions VALUES ('a', 't'), ('quiet', 't');
        INSERT INTO task_session_messages
        SELECT n::text, 'a', 't', NULL, CASE n % 2 WHEN 0 THEN 'user' ELSE 'agent' END, 'text', ts, ts
          FROM generate_series(1, 6) n, LATERAL (SELECT timestamptz '2020-01-01' - n * interval '1 s' AS ts) x;
        """
    )
    assert (await migrate(connection)).version == LATEST
    rows = await connection.fetch("SELECT id, prompt_seq FROM task_session_messages ORDER BY id")
    assert [tuple(row) for row in rows] == [("1", 0), ("2", 3), ("3", 0), ("4", 2), ("5", 0), ("6", 1)]
    revisions = await connection.fetch("SELECT session_id, revision FROM conversation_session_revisions")
    assert {tuple(row) for row in revisions} == {("a", 1), ("quiet", 0)}
    await connection.close()


async def test_times_without_a_zone_are_utc_whatever_zone_the_writer_is_in(empty_database_url: str) -> None:
    connection = await opened(empty_database_url)
    await connection.execute(
        """
        CREATE TABLE task_sessions (id text PRIMARY KEY, task_id text NOT NULL);
        CREATE TABLE task_session_messages (
            id text PRIMARY KEY, task_session_id text NOT NULL REFERENCES task_sessions ON DELETE CASCADE,
            task_id text NOT NULL, author_type text NOT NULL,
            created_at timestamp NOT NULL, updated_at timestamp NOT NULL);
        """
    )
    await migrate(connection)
    await connection.execute(
        """
        SET timezone = 'Asia/Tokyo';
        INSERT INTO task_sessions VALUES ('a', 't');
        INSERT INTO task_session_messages (id, task_session_id, task_id, author_type)
        VALUES ('p1', 'a', 't', 'user'), ('p2', 'a', 't', 'user'), ('r', 'a', 't', 'agent');
        """
    )
    rows = await connection.fetch(
        "SELECT id FROM task_session_messages "
        "WHERE abs(extract(epoch FROM created_at - clock_timestamp() AT TIME ZONE 'UTC')) < 3600 ORDER BY created_at"
    )
    assert [row["id"] for row in rows] == ["p1", "p2", "r"]
    await connection.close()


async def test_every_database_has_an_epoch_of_its_own(
    make_database: Callable[[], AbstractContextManager[str]],
) -> None:
    epochs = set()
    for _ in range(2):
        with make_database() as url:
            await migrate(url)
            connection = await opened(url)
            epochs.add(await connection.fetchval("SELECT epoch FROM conversation.epoch WHERE reason = 'installation'"))
            await connection.close()
    assert len(epochs) == 2
    assert None not in epochs


def test_a_number_used_twice_is_refused(tmp_path: Path) -> None:
    for name in ("0001_one.sql", "0001_two.sql"):
        (tmp_path / name).write_text("SELECT 1;")
    with pytest.raises(SchemaError, match=r"0001_two\.sql: version 1 is already one"):
        known_migrations(tmp_path)


def test_a_file_without_a_number_is_refused(tmp_path: Path) -> None:
    (tmp_path / "extra.sql").write_text("SELECT 1;")
    with pytest.raises(SchemaError, match=r"extra\.sql: expected a name like"):
        known_migrations(tmp_path)
