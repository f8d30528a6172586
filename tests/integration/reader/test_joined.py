"""Pages that several have asked for, and pages that the asker holds (G8): one snapshot decides everything."""

import asyncpg
import pytest

from services.gateway.source.joining import GATEWAY
from shared.contracts.errors import RequestFailed
from shared.contracts.identity import Identity
from shared.contracts.reads import (
    Bound,
    MessagesAnswer,
    MessagesPage,
    PageAnswer,
    PageRead,
    TurnsAnswer,
    TurnsPage,
    UnchangedAnswer,
)
from tests.integration.reader.people import MEMBER, OWNER, STRANGER, UNSCOPED, Reading

EVERYBODY = ("member", "owner", "stranger")
KINDS = (MessagesPage, TurnsPage)


async def read(reader: Reading, page: PageRead) -> PageAnswer:
    assert isinstance(page, MessagesPage | TurnsPage)
    answer = await reader.answer(page)
    assert isinstance(answer, PageAnswer)
    return answer


def bound(answer: PageAnswer) -> Bound:
    return Bound(epoch=answer.epoch, revision=answer.revision)


@pytest.fixture
async def filled(db: asyncpg.Connection) -> asyncpg.Connection:
    for session, task in (("s", "task"), ("p", "public")):
        await db.execute(
            "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type) VALUES ($1, $2, $3, 'user')",
            f"m-{session}",
            session,
            task,
        )
        await db.execute(
            "INSERT INTO task_session_turns (id, task_session_id, task_id) VALUES ($1, $2, $3)",
            f"turn-{session}",
            session,
            task,
        )
    return db


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("session", "admitted"), [("s", ("member", "owner")), ("p", EVERYBODY)])
async def test_each_reader_is_decided(
    reader: Reading, filled: asyncpg.Connection, kind: type[PageRead], session: str, admitted: tuple[str, ...]
) -> None:
    answer = await read(reader, kind(identity=GATEWAY, session_id=session, readers=EVERYBODY))
    assert isinstance(answer, MessagesAnswer | TurnsAnswer)
    assert answer.admitted == admitted
    assert len(answer.rows) == 1
    alone = await read(reader, kind(identity=UNSCOPED, session_id=session))
    assert alone == answer.model_copy(update={"admitted": ()})


@pytest.mark.parametrize("kind", KINDS)
async def test_a_held_page_is_unchanged_until_the_session_moves_on(
    reader: Reading, filled: asyncpg.Connection, kind: type[PageRead]
) -> None:
    first = await read(reader, kind(identity=OWNER, session_id="s"))
    again = kind(identity=GATEWAY, session_id="s", readers=EVERYBODY, held=bound(first))
    unchanged = await read(reader, again)
    assert isinstance(unchanged, UnchangedAnswer)
    assert (bound(unchanged), unchanged.task_id) == (bound(first), first.task_id)
    assert unchanged.admitted == ("member", "owner")
    await filled.execute("DELETE FROM workspace_members WHERE user_id = 'member'")
    unchanged = await read(reader, again)
    assert isinstance(unchanged, UnchangedAnswer)
    assert unchanged.admitted == ("owner",)
    await filled.execute("UPDATE task_session_messages SET content = 'new' WHERE id = 'm-s'")
    changed = await read(reader, again)
    assert isinstance(changed, MessagesAnswer | TurnsAnswer)
    assert changed.revision == first.revision + 1
    assert changed.rows
    assert changed.admitted == ("owner",)


async def test_a_held_page_costs_no_row(reader: Reading, filled: asyncpg.Connection) -> None:
    """The lock would make any read of messages wait for ever."""
    first = await read(reader, MessagesPage(identity=OWNER, session_id="s"))
    async with filled.transaction():
        await filled.execute("LOCK TABLE task_session_messages")
        held = MessagesPage(identity=OWNER, session_id="s", held=bound(first))
        assert isinstance(await read(reader, held), UnchangedAnswer)


@pytest.mark.parametrize("of", [Bound(epoch="another", revision=1), Bound(epoch="", revision=0)])
async def test_what_is_held_of_another_epoch_or_revision_is_read(
    reader: Reading, filled: asyncpg.Connection, of: Bound
) -> None:
    first = await read(reader, MessagesPage(identity=OWNER, session_id="s"))
    for held in (of, Bound(epoch=of.epoch, revision=first.revision), Bound(epoch=first.epoch, revision=of.revision)):
        if held != bound(first):
            page = MessagesPage(identity=OWNER, session_id="s", held=held)
            assert isinstance(await read(reader, page), MessagesAnswer)


@pytest.mark.parametrize("identity", [STRANGER, GATEWAY])
async def test_what_is_not_there_or_not_the_askers(
    reader: Reading, filled: asyncpg.Connection, identity: Identity
) -> None:
    first = await read(reader, MessagesPage(identity=OWNER, session_id="s"))
    session = "s" if identity is STRANGER else "absent"
    page = MessagesPage(identity=identity, session_id=session, readers=("member",), held=bound(first))
    with pytest.raises(RequestFailed) as refused:
        await reader.answer(page)
    assert refused.value.failure.code == "not_found"
    assert refused.value.failure.message == "task session not found"


async def test_a_joined_read_says_what_any_would_of_its_query(reader: Reading, filled: asyncpg.Connection) -> None:
    page = MessagesPage(identity=GATEWAY, session_id="s", readers=("member",), position={"at": "after", "row": "m-p"})
    with pytest.raises(RequestFailed) as refused:
        await reader.answer(page)
    assert refused.value.failure.code == "invalid_cursor"


async def test_a_least_revision_that_is_not_reached(reader: Reading, filled: asyncpg.Connection) -> None:
    """G2 holds for held pages as well."""
    first = await read(reader, MessagesPage(identity=MEMBER, session_id="s"))
    least = Bound(epoch=first.epoch, revision=first.revision + 1)
    with pytest.raises(RequestFailed) as refused:
        await reader.answer(MessagesPage(identity=MEMBER, session_id="s", held=bound(first), least=least))
    assert refused.value.failure.code == "behind"
