"""Who sees what: decided with the rows, and the same for what is foreign and what is not there."""

import asyncpg
import pytest

from shared.contracts.errors import RequestFailed
from shared.contracts.identity import Identity
from shared.contracts.reads import (
    ListAnswer,
    MessagesPage,
    Read,
    RevisionAnswer,
    RevisionCheck,
    SessionList,
    SessionSearch,
    TaskList,
    TurnsPage,
    WorkspaceList,
)
from tests.integration.reader.people import MEMBER, OWNER, STRANGER, UNSCOPED, Reading

SEEN = [
    (OWNER, {"s", "other", "p"}),
    (MEMBER, {"s", "other", "p"}),
    (STRANGER, {"p"}),
    (UNSCOPED, {"s", "other", "p"}),
    (Identity(user=""), {"p"}),
]


def session_reads(identity: Identity, session: str) -> list[Read]:
    return [
        MessagesPage(identity=identity, session_id=session),
        TurnsPage(identity=identity, session_id=session),
        SessionSearch(identity=identity, session_id=session, query="x"),
    ]


@pytest.mark.parametrize(("identity", "seen"), SEEN)
async def test_a_session_is_read_by_those_who_may_see_it(
    reader: Reading, db: asyncpg.Connection, identity: Identity, seen: set[str]
) -> None:
    for session in ("s", "other", "p", "absent"):
        for read in session_reads(identity, session):
            if session in seen:
                await reader.answer(read)
            else:
                with pytest.raises(RequestFailed) as refused:
                    await reader.answer(read)
                assert refused.value.failure.code == "not_found"
                assert refused.value.failure.message == "task session not found"


@pytest.mark.parametrize(("identity", "seen"), SEEN)
async def test_a_check_leaves_out_what_the_asker_may_not_see(
    reader: Reading, db: asyncpg.Connection, identity: Identity, seen: set[str]
) -> None:
    sessions = ("s", "other", "p", "absent", "a\x00b")
    found = await reader.answer(RevisionCheck(identity=identity, sessions=sessions))
    assert isinstance(found, RevisionAnswer)
    assert set(found.revisions) == set(found.tasks) == seen
    assert found.primary


@pytest.mark.parametrize(("identity", "seen"), SEEN)
async def test_lists_hold_what_the_asker_may_see(
    reader: Reading, db: asyncpg.Connection, identity: Identity, seen: set[str]
) -> None:
    workspaces = await reader.answer(WorkspaceList(identity=identity))
    tasks = await reader.answer(TaskList(identity=identity))
    shared_tasks = await reader.answer(TaskList(identity=identity, workspace_id="shared"))
    sessions = await reader.answer(SessionList(identity=identity))
    of_task = await reader.answer(SessionList(identity=identity, task_id="task"))
    one = await reader.answer(SessionList(identity=identity, task_id="task", session_id="s"))
    for found in (workspaces, tasks, shared_tasks, sessions, of_task, one):
        assert isinstance(found, ListAnswer)
    assert isinstance(workspaces, ListAnswer)
    assert isinstance(tasks, ListAnswer)
    assert isinstance(shared_tasks, ListAnswer)
    assert isinstance(sessions, ListAnswer)
    assert isinstance(of_task, ListAnswer)
    assert isinstance(one, ListAnswer)
    inside = "s" in seen
    assert [row.id for row in workspaces.workspaces] == (["open", "shared"] if inside else ["open"])
    assert {row.id for row in tasks.tasks} == ({"task", "public"} if inside else {"public"})
    assert {row.id for row in shared_tasks.tasks} == ({"task"} if inside else set())
    assert {row.id for row in sessions.sessions} == seen
    assert {row.id for row in of_task.sessions} == seen & {"s", "other"}
    assert [row.id for row in one.sessions] == (["s"] if inside else [])


async def test_access_that_is_withdrawn_ends_with_the_next_read(reader: Reading, db: asyncpg.Connection) -> None:
    page = MessagesPage(identity=MEMBER, session_id="s")
    await reader.answer(page)
    await db.execute("DELETE FROM workspace_members WHERE user_id = 'member'")
    with pytest.raises(RequestFailed) as refused:
        await reader.answer(page)
    assert refused.value.failure.code == "not_found"


async def test_lists_are_newest_first_and_bounded(reader: Reading, db: asyncpg.Connection) -> None:
    await db.execute(
        "INSERT INTO task_sessions (id, task_id, started_at) "
        "SELECT 'n' || n, 'task', '2030-01-01'::timestamptz + n * interval '1 s' FROM generate_series(1, 600) n"
    )
    found = await reader.answer(SessionList(identity=OWNER))
    assert isinstance(found, ListAnswer)
    assert [row.id for row in found.sessions] == [f"n{n}" for n in range(600, 100, -1)]


async def test_a_listed_session_has_its_revision(reader: Reading, db: asyncpg.Connection) -> None:
    await db.execute("INSERT INTO task_session_turns (id, task_session_id, task_id) VALUES ('t', 's', 'task')")
    found = await reader.answer(SessionList(identity=OWNER, session_id="s"))
    assert isinstance(found, ListAnswer)
    stored = await db.fetchval("SELECT revision FROM conversation_session_revisions WHERE session_id = 's'")
    assert [(row.id, row.task_id, row.revision) for row in found.sessions] == [("s", "task", stored)]


async def test_a_check_says_who_may_not_read_any_more(reader: Reading, db: asyncpg.Connection) -> None:
    """Each pair by itself; of what is not there nothing is said."""
    everyone = ("owner", "member", "stranger", "")
    readers = dict.fromkeys(("s", "p", "absent", "a\x00b"), everyone)
    found = await reader.answer(RevisionCheck(identity=UNSCOPED, sessions=tuple(readers), readers=readers))
    assert isinstance(found, RevisionAnswer)
    assert {session: set(users) for session, users in found.refused.items()} == {"s": {"stranger", ""}}


async def test_a_check_decides_with_the_rows_that_are_there_now(reader: Reading, db: asyncpg.Connection) -> None:
    check = RevisionCheck(identity=UNSCOPED, sessions=("s", "other"), readers={"s": ("member",), "other": ("owner",)})
    found = await reader.answer(check)
    assert isinstance(found, RevisionAnswer)
    assert found.refused == {}
    await db.execute("DELETE FROM workspace_members; UPDATE workspaces SET owner_id = 'another' WHERE id = 'shared'")
    found = await reader.answer(check)
    assert isinstance(found, RevisionAnswer)
    assert found.refused == {"s": ("member",), "other": ("owner",)}
    await db.execute("UPDATE tasks SET workspace_id = 'open' WHERE id = 'task'")
    found = await reader.answer(check)
    assert isinstance(found, RevisionAnswer)
    assert found.refused == {}


async def test_a_check_never_refuses_more_nor_less_than_a_read(reader: Reading, db: asyncpg.Connection) -> None:
    """One rule, whichever statement asks it."""
    sessions = ("s", "other", "p")
    found = await reader.answer(
        RevisionCheck(identity=UNSCOPED, sessions=sessions, readers=dict.fromkeys(sessions, ("owner", "stranger")))
    )
    assert isinstance(found, RevisionAnswer)
    for user in ("owner", "stranger"):
        own = await reader.answer(RevisionCheck(identity=Identity(user=user), sessions=sessions))
        assert isinstance(own, RevisionAnswer)
        assert own.revisions.keys() == {name for name in sessions if user not in found.refused.get(name, ())}
