"""What an answer says of its snapshot is true of its rows, and never older than the asker's knowledge."""

import asyncio

import asyncpg
import pytest

from services.gateway.source.joining import GATEWAY
from services.reader.answers import MIGRATE
from services.reader.pools import Sources
from shared.contracts.errors import RequestFailed
from shared.contracts.reads import (
    Bound,
    MessagesAnswer,
    MessagesPage,
    Read,
    RevisionAnswer,
    RevisionCheck,
    SessionSearch,
    TurnsPage,
)
from tests.integration.reader.people import OWNER, STRANGER, Reading, open_sources

MESSAGE = "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content) "
UPDATE = "UPDATE task_session_messages SET content = $1 WHERE task_session_id = 's'"
ONE = MESSAGE + "VALUES ($1, 's', 'task', 'agent', 'x')"


async def epoch_of(db: asyncpg.Connection) -> str:
    epoch: str = await db.fetchval("SELECT epoch FROM conversation.epoch")
    return epoch


async def revision_of(db: asyncpg.Connection, session: str = "s") -> int:
    revision: int = await db.fetchval(
        "SELECT revision FROM conversation_session_revisions WHERE session_id = $1", session
    )
    return revision


async def refusal(reader: Reading, read: Read) -> str:
    with pytest.raises(RequestFailed) as refused:
        await reader.answer(read)
    return refused.value.failure.code


async def test_an_answer_names_its_epoch_revision_and_primary(reader: Reading, db: asyncpg.Connection) -> None:
    await db.execute(ONE, "m")
    found = await reader.answer(MessagesPage(identity=OWNER, session_id="s"))
    assert isinstance(found, MessagesAnswer)
    assert (found.epoch, found.revision, found.primary) == (await epoch_of(db), await revision_of(db), True)
    checked = await reader.answer(RevisionCheck(identity=OWNER, sessions=("s",)))
    assert isinstance(checked, RevisionAnswer)
    assert (checked.epoch, checked.revisions, checked.tasks) == (found.epoch, {"s": found.revision}, {"s": "task"})


async def test_a_session_without_a_revision_row_reads_as_zero(reader: Reading, db: asyncpg.Connection) -> None:
    await db.execute("DELETE FROM conversation_session_revisions WHERE session_id = 's'")
    found = await reader.answer(MessagesPage(identity=OWNER, session_id="s"))
    assert isinstance(found, MessagesAnswer)
    assert found.revision == 0
    checked = await reader.answer(RevisionCheck(identity=OWNER, sessions=("s",)))
    assert isinstance(checked, RevisionAnswer)
    assert checked.revisions == {"s": 0}


async def test_a_page_equals_the_source_at_its_revision(
    reader: Reading, db: asyncpg.Connection, database_url: str
) -> None:
    """Each commit writes its number into every row, and one revision: a page of two states would show two numbers."""
    await db.execute(
        MESSAGE + "SELECT 'm' || n, 's', 'task', 'agent', '0' FROM generate_series(1, 8) n",
    )
    start = await revision_of(db)
    stop = asyncio.Event()

    async def write() -> None:
        writer = await asyncpg.connect(database_url)
        state = 0
        while not stop.is_set():
            state += 1
            await writer.execute(
                "UPDATE task_session_messages SET content = $1 WHERE task_session_id = 's'", str(state)
            )
        await writer.close()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(write())
        seen: set[int] = set()
        try:
            while len(seen) < 30:
                found = await reader.answer(MessagesPage(identity=OWNER, session_id="s"))
                assert isinstance(found, MessagesAnswer)
                assert {row.content for row in found.rows} == {str(found.revision - start)}
                seen.add(found.revision)
        finally:
            stop.set()


def reads_with(least: Bound | None = None, expected: int | None = None) -> list[Read]:
    return [
        MessagesPage(identity=OWNER, session_id="s", least=least, expected_revision=expected),
        TurnsPage(identity=OWNER, session_id="s", least=least, expected_revision=expected),
        SessionSearch(identity=OWNER, session_id="s", query="x", least=least, expected_revision=expected),
    ]


async def test_another_revision_than_the_expected_one_is_refused(reader: Reading, db: asyncpg.Connection) -> None:
    revision = await revision_of(db)
    for read in reads_with(expected=revision):
        await reader.answer(read)
    for read in [*reads_with(expected=revision + 1), *reads_with(expected=revision - 1)]:
        assert await refusal(reader, read) == "reconciliation_required"


async def test_g2_never_older_than_the_least_revision(reader: Reading, db: asyncpg.Connection) -> None:
    epoch, revision = await epoch_of(db), await revision_of(db)
    for read in reads_with(least=Bound(epoch=epoch, revision=revision)):
        await reader.answer(read)
    for read in reads_with(least=Bound(epoch=epoch, revision=revision + 1)):
        assert await refusal(reader, read) == "behind"
    for read in reads_with(least=Bound(epoch="another", revision=revision + 1)):
        await reader.answer(read)


async def test_g2_a_check_is_behind_when_one_session_is(reader: Reading, db: asyncpg.Connection) -> None:
    epoch, revision = await epoch_of(db), await revision_of(db)
    least = {"s": revision, "other": await revision_of(db, "other") + 1}
    check = RevisionCheck(identity=OWNER, sessions=("s", "other"), epoch=epoch, least=least)
    assert await refusal(reader, check) == "behind"
    await reader.answer(check.model_copy(update={"epoch": "another"}))
    await reader.answer(check.model_copy(update={"least": {"s": revision}}))


async def test_g2_a_commit_that_lands_meanwhile_is_waited_for(
    reader: Reading, db: asyncpg.Connection, sources: Sources
) -> None:
    epoch, revision = await epoch_of(db), await revision_of(db)
    looks = asyncio.Event()
    for read in (
        *reads_with(least=Bound(epoch=epoch, revision=revision + 1)),
        RevisionCheck(identity=OWNER, sessions=("s",), epoch=epoch, least={"s": revision + 1}),
    ):
        looks.clear()
        revision = await revision_of(db)
        least = Bound(epoch=epoch, revision=revision + 1)
        asked = (
            read.model_copy(update={"least": {"s": revision + 1}})
            if isinstance(read, RevisionCheck)
            else read.model_copy(update={"least": least})
        )
        async with sources.primary.acquire() as connection:
            connection.add_query_logger(lambda _: looks.set())
        answering = asyncio.ensure_future(reader.answer(asked))
        await looks.wait()
        assert not answering.done()
        await db.execute(ONE, f"m-{asked.kind}")
        found = await answering
        if isinstance(found, MessagesAnswer):
            assert found.revision == revision + 1
            assert len(found.rows) == 1


async def at_rest(seconds: float) -> None:
    raise AssertionError(f"a read rests for {seconds} s")


@pytest.mark.parametrize("session", ["gone", "s"])
async def test_what_is_not_there_and_what_is_not_theirs_is_told_alike_and_at_once(
    reader: Reading, db: asyncpg.Connection, session: str
) -> None:
    """Also where the gateway knows a revision of it: a wait would tell that it is there, or was."""
    epoch, revision = await epoch_of(db), await revision_of(db) + 1
    for read in reads_with(least=Bound(epoch=epoch, revision=revision)):
        with pytest.raises(RequestFailed) as refused:
            await reader.answer(read.model_copy(update={"identity": STRANGER, "session_id": session}), at_rest)
        assert refused.value.failure.model_dump() == {
            "code": "not_found",
            "message": "task session not found",
            "details": {},
        }
    check = RevisionCheck(identity=STRANGER, sessions=(session,), epoch=epoch, least={session: revision})
    answer = await reader.answer(check, at_rest)
    assert isinstance(answer, RevisionAnswer)
    assert (answer.revisions, answer.tasks) == ({}, {})


@pytest.mark.parametrize("session", ["gone", "s"])
async def test_strangers_who_ask_together_have_nothing_read_for_them(
    reader: Reading, sources: Sources, db: asyncpg.Connection, session: str
) -> None:
    statements: list[str] = []
    async with sources.primary.acquire() as connection:
        connection.add_query_logger(lambda record: statements.append(record.query))
    least = Bound(epoch=await epoch_of(db), revision=await revision_of(db) + 1)
    page = MessagesPage(identity=GATEWAY, session_id=session, least=least, readers=("one", "another"))
    with pytest.raises(RequestFailed) as refused:
        await reader.answer(page, at_rest)
    assert refused.value.failure.code == "not_found"
    assert not any("task_session_messages" in statement for statement in statements)
    owned = MessagesPage(identity=GATEWAY, session_id="s", readers=("one", OWNER.user))
    assert isinstance(await reader.answer(owned, at_rest), MessagesAnswer)
    assert any("task_session_messages" in statement for statement in statements)


async def test_a_database_without_an_epoch_is_unavailable(reader: Reading, db: asyncpg.Connection) -> None:
    await db.execute("DELETE FROM conversation.epoch")
    for read in (*reads_with(), RevisionCheck(identity=OWNER, sessions=("s",))):
        assert await refusal(reader, read) == "unavailable"


async def test_a_database_without_the_schema_says_what_to_run(empty_database_url: str) -> None:
    async with open_sources(empty_database_url) as sources:
        with pytest.raises(RequestFailed) as refused:
            await Reading(sources).answer(MessagesPage(identity=OWNER, session_id="s"))
    assert (refused.value.failure.code, refused.value.failure.message) == ("unavailable", MIGRATE)
