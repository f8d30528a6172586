"""The journal is given up: five tables by name, in one transaction with the triggers that count; then three files."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio

from services.revision.cutover.files import LEGACY_FILES, Fate, files_in, remove_files
from services.revision.cutover.tables import LEGACY_TABLES, Journal, NotReady, drop_journal, journal
from services.revision.schema.detach import detach
from services.revision.schema.migrate import migrate
from tests.support.kandev import FILL, JOURNAL, SCHEMA, rows_of, schema_of

TABLES = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'"
COUNTING = "SELECT tgname FROM pg_trigger WHERE tgrelid = 'task_session_messages'::regclass AND NOT tgisinternal"
WRITE = "UPDATE task_session_messages SET content = content || '!' WHERE id = 'm5'"


def nothing(_: str) -> None:
    """Nobody listens."""


@pytest_asyncio.fixture
async def kandev(empty_database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """The application's database with rows, and the journal that it kept."""
    connection = await asyncpg.connect(empty_database_url)
    for statements in (SCHEMA, FILL.format(sessions=5, messages=100), JOURNAL):
        await connection.execute(statements)
    await connection.execute(WRITE)
    yield connection
    await connection.close()


async def tables(connection: asyncpg.Connection) -> set[str]:
    return {row["relname"] for row in await connection.fetch(TABLES)}


async def triggers(connection: asyncpg.Connection) -> set[str]:
    return {row["tgname"] for row in await connection.fetch(COUNTING)}


async def test_exactly_the_five_go(kandev: asyncpg.Connection) -> None:
    rows = await rows_of(kandev)
    await migrate(kandev)
    before = await tables(kandev)
    there = await drop_journal(kandev, nothing)
    assert tuple(table.name for table in there.tables) == LEGACY_TABLES
    assert [trigger.name for trigger in there.triggers] == ["conversation_journal_message"]
    assert before - await tables(kandev) == set(LEGACY_TABLES)
    assert "conversation_session_events_archive" in await tables(kandev)
    assert await rows_of(kandev) == rows
    await kandev.execute(WRITE)
    assert await drop_journal(kandev, nothing) == Journal((), ())


async def test_what_is_left_behind_is_left_as_without_the_journal(
    empty_database_url: str, kandev: asyncpg.Connection
) -> None:
    await migrate(kandev)
    await drop_journal(kandev, nothing)
    await detach(kandev)
    left = await schema_of(empty_database_url)
    assert "conversation_source_message_insert" in left
    assert not any(f"TABLE public.{table} " in left for table in LEGACY_TABLES)


@pytest.mark.parametrize("missing", LEGACY_TABLES)
async def test_a_part_of_the_five_goes_the_same_way(kandev: asyncpg.Connection, missing: str) -> None:
    await kandev.execute(f"DROP TABLE {missing} CASCADE")
    await migrate(kandev)
    await drop_journal(kandev, nothing)
    assert not await tables(kandev) & set(LEGACY_TABLES)
    await kandev.execute(WRITE)


async def test_a_trigger_without_its_tables_goes_too(kandev: asyncpg.Connection) -> None:
    """It would fail every writer."""
    await kandev.execute(f"DROP TABLE {', '.join(LEGACY_TABLES)}")
    await migrate(kandev)
    assert [trigger.name for trigger in (await drop_journal(kandev, nothing)).triggers]
    await kandev.execute(WRITE)


async def test_a_journal_that_comes_back_goes_again(kandev: asyncpg.Connection) -> None:
    """As with a backup that was put back beside what was there."""
    await migrate(kandev)
    for _ in range(2):
        await drop_journal(kandev, nothing)
        assert not await tables(kandev) & set(LEGACY_TABLES)
        await kandev.execute(
            "DROP TABLE conversation_session_events_archive; DROP FUNCTION conversation_journal_message"
        )
        await kandev.execute(JOURNAL)


async def test_without_a_journal_nothing_is_done(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    seen: list[str] = []
    assert await drop_journal(connection, seen.append) == Journal((), ())
    assert seen == []
    await connection.close()


async def test_nothing_else_goes_with_the_five(kandev: asyncpg.Connection) -> None:
    await kandev.execute("CREATE VIEW reports AS SELECT * FROM conversation_session_events")
    await migrate(kandev)
    with pytest.raises(NotReady, match="view reports depends on table conversation_session_events"):
        await drop_journal(kandev, nothing)
    assert set(LEGACY_TABLES) <= await tables(kandev)
    assert "conversation_journal_message" in await triggers(kandev)
    await kandev.execute("DROP VIEW reports")
    await drop_journal(kandev, nothing)
    assert not set(LEGACY_TABLES) & await tables(kandev)


async def test_the_journal_stays_until_changes_are_captured_whole(kandev: asyncpg.Connection) -> None:
    await migrate(kandev)
    await kandev.execute("DROP PUBLICATION conversation_receipts")
    with pytest.raises(NotReady, match="the publication conversation_receipts is missing"):
        await drop_journal(kandev, nothing)
    assert set(LEGACY_TABLES) <= await tables(kandev)


async def test_triggers_that_are_gone_are_made_again_in_the_same_transaction(kandev: asyncpg.Connection) -> None:
    await migrate(kandev)
    await kandev.execute(
        "DROP TRIGGER conversation_rows_updated ON task_session_messages;"
        "ALTER TABLE task_session_turns DISABLE TRIGGER conversation_rows_inserted"
    )
    await drop_journal(kandev, nothing)
    assert "conversation_rows_updated" in await triggers(kandev)
    assert not set(LEGACY_TABLES) & await tables(kandev)


async def test_whatever_interrupts_it_all_or_nothing_is_done(
    kandev: asyncpg.Connection, empty_database_url: str
) -> None:
    """Every point at which it can fail, twice: by an error of its own, and by the loss of its connection."""
    await migrate(kandev)
    there = set(LEGACY_TABLES)
    for kind in ("error", "connection"):
        at = 0
        while True:
            doomed = await asyncpg.connect(empty_database_url)
            seen: list[str] = []

            def listen(step: str, seen: list[str] = seen, at: int = at, doomed: asyncpg.Connection = doomed) -> None:
                seen.append(step)
                if len(seen) == at + 1:
                    if kind == "connection":  # noqa: B023 - called before the loop goes on
                        doomed.terminate()
                    else:
                        raise RuntimeError(step)

            try:
                await drop_journal(doomed, listen)
            except (RuntimeError, asyncpg.InterfaceError, ConnectionError):
                doomed.terminate()
            else:
                break
            assert there <= await tables(kandev)
            assert "conversation_journal_message" in await triggers(kandev)
            assert "conversation_rows_updated" in await triggers(kandev)
            await kandev.execute(WRITE)
            at += 1
        await doomed.close()
        assert at == len(seen) >= 4
        assert not there & await tables(kandev)
        await kandev.execute(
            "DROP TABLE conversation_session_events_archive; DROP FUNCTION conversation_journal_message"
        )
        await kandev.execute(JOURNAL)


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A folder with the journal's files, and others."""
    folder = tmp_path / ".host"
    folder.mkdir()
    for name in (*LEGACY_FILES, "session-events.sqlite-journal", "other.sqlite"):
        (folder / name).write_bytes(b"xyz")
    return folder


def left(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_exactly_the_three_files_go(host: Path) -> None:
    seen: list[str] = []
    assert [(file.fate, file.size) for file in files_in(host)] == [(Fate.REMOVED, 3)] * 3
    assert len(left(host)) == 5
    assert [file.fate for file in remove_files(host, seen.append)] == [Fate.REMOVED] * 3
    assert left(host) == {"session-events.sqlite-journal", "other.sqlite"}
    assert seen == [f"removing {name}" for name in LEGACY_FILES]
    assert [file.fate for file in remove_files(host, seen.append)] == [Fate.ABSENT] * 3


@pytest.mark.parametrize("name", LEGACY_FILES)
@pytest.mark.parametrize("kind", ["link", "dangling link", "folder", "pipe"])
def test_anything_but_a_file_is_refused_and_the_others_go(host: Path, name: str, kind: str) -> None:
    place, outside = host / name, host.parent / "outside"
    place.unlink()
    outside.write_bytes(b"kept")
    match kind:
        case "link":
            place.symlink_to(outside)
        case "dangling link":
            place.symlink_to(host.parent / "nowhere")
        case "folder":
            place.mkdir()
        case _:
            os.mkfifo(place)
    for _ in range(2):
        found = {file.name: file for file in remove_files(host, nothing)}
        assert found[name].fate is Fate.REFUSED
        assert found[name].reason == ("it is a symbolic link" if "link" in kind else "it is no regular file")
        assert not left(host) & set(LEGACY_FILES) - {name}
    assert outside.read_bytes() == b"kept"
    assert os.path.lexists(place)


def test_a_folder_that_is_a_link_is_refused(host: Path) -> None:
    link = host.parent / "link"
    link.symlink_to(host)
    assert [file.fate for file in remove_files(link, nothing)] == [Fate.REFUSED] * 3
    assert set(LEGACY_FILES) <= left(host)


def test_a_folder_that_is_not_there_has_no_files(tmp_path: Path) -> None:
    assert [file.fate for file in remove_files(tmp_path / "nowhere", nothing)] == [Fate.ABSENT] * 3


@pytest.mark.parametrize("at", range(3))
def test_removing_goes_on_where_it_was_interrupted(host: Path, at: int) -> None:
    seen: list[str] = []

    def listen(step: str) -> None:
        if len(seen) == at:
            raise RuntimeError(step)
        seen.append(step)

    with pytest.raises(RuntimeError):
        remove_files(host, listen)
    assert [file.fate for file in files_in(host)] == [Fate.ABSENT] * at + [Fate.REMOVED] * (3 - at)
    remove_files(host, nothing)
    assert not left(host) & set(LEGACY_FILES)


def test_a_file_that_goes_by_itself_meanwhile_is_gone(host: Path) -> None:
    def listen(step: str) -> None:
        (host / step.removeprefix("removing ")).unlink()

    assert [file.fate for file in remove_files(host, listen)] == [Fate.ABSENT] * 3


async def test_looking_changes_nothing(kandev: asyncpg.Connection, empty_database_url: str) -> None:
    before = await schema_of(empty_database_url)
    found = await journal(kandev)
    assert [table.name for table in found.tables] == list(LEGACY_TABLES)
    assert all(table.size > 0 for table in found.tables)
    assert await schema_of(empty_database_url) == before
