"""Every command once, twice and late; every conflict; who may; what cannot be stored."""

import asyncio

import orjson
import pytest

from shared.contracts.commands import (
    AppendMessage,
    Command,
    CompleteTurn,
    CreateMessage,
    CreateSession,
    CreateTask,
    CreateWorkspace,
    DeleteMessage,
    DeleteSession,
    DeleteTask,
    StartTurn,
    UpdateMessage,
    UpdateSession,
)
from shared.contracts.identity import Identity
from shared.times import format_microseconds
from tests.integration.commands.conftest import Source

LATER = "2126-01-01T00:00:00Z"


def prompt(message_id: str = "m", **fields: object) -> CreateMessage:
    return CreateMessage.model_validate(
        {"message_id": message_id, "session_id": "s", "author_type": "user", "content": "hello", **fields}
    )


def story() -> list[Command]:
    """One of each command, in an order in which each has something to do."""
    return [
        CreateWorkspace(workspace_id="w2", name="W2", owner_id="ann"),
        CreateTask(task_id="t2", workspace_id="w2", title="T2"),
        CreateSession(session_id="s2", task_id="t2", metadata='{"a":[1,null]}', started_at="2026-01-01T00:00:00Z"),
        StartTurn(turn_id="u2", session_id="s2", metadata='{"x":1}', route_generation=3, execution_profile_id="p"),
        prompt("m2", session_id="s2", turn_id="u2", metadata='{"k":"é","n":{"deep":true}}'),
        prompt("a2", session_id="s2", author_type="agent", author_id="agent-1", content=""),
        AppendMessage(message_id="a2", session_id="s2", offset=0, text="answer"),
        UpdateMessage(message_id="m2", session_id="s2", content="hello again", expected_revision=5),
        CompleteTurn(turn_id="u2", session_id="s2"),
        DeleteMessage(message_id="m2", session_id="s2"),
        UpdateSession(session_id="s2", state="COMPLETED"),
        DeleteSession(session_id="s2"),
        DeleteTask(task_id="t2"),
    ]


async def test_every_command_twice_changes_nothing_the_second_time(source: Source) -> None:
    for command in story():
        first = await source.do(command)
        state = await source.state()
        second = await source.do(command)
        assert await source.state() == state, command.kind
        assert second.base_revision == second.revision
        if first.session_id and command.kind not in {"update_session", "delete_session"}:
            assert first.revision > first.base_revision
            assert second == first.model_copy(update={"base_revision": first.revision})


async def test_intervals_of_one_session_follow_each_other(source: Source) -> None:
    changing = [command for command in story() if not isinstance(command, UpdateSession)]
    results = [result for command in changing if (result := await source.do(command)).session_id]
    created, *following = results
    assert created.base_revision == 0
    for before, after in zip(results, following, strict=False):
        assert after.base_revision == before.revision
        assert after.revision == before.revision + 1
    assert {result.epoch for result in results} == {await source.pool.fetchval("SELECT epoch FROM conversation.epoch")}


async def test_a_session_older_than_its_revisions_begins_at_base_zero(source: Source) -> None:
    async with source.pool.acquire() as connection, connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute("DELETE FROM conversation_session_revisions")
    result = await source.do(prompt())
    assert (result.base_revision, result.revision) == (0, await source.revision())
    assert (await source.do(prompt("n"))).base_revision == result.revision


@pytest.mark.parametrize(
    ("command", "other"),
    [
        (CreateWorkspace(workspace_id="x", name="X"), {"name": "Y"}),
        (CreateTask(task_id="x", workspace_id="w", title="X"), {"title": "Y"}),
        (CreateSession(session_id="x", task_id="t"), {"metadata": '{"a":1}'}),
        (CreateSession(session_id="x", task_id="t", started_at=LATER), {"started_at": "2026-01-01T00:00:00Z"}),
        (prompt(), {"content": "other"}),
        (prompt(), {"session_id": "s3"}),
        (prompt(), {"author_type": "agent"}),
        (prompt(), {"metadata": '{"a":1}'}),
        (prompt(created_at=LATER), {"created_at": "2126-01-01T00:00:00.000001Z"}),
        (StartTurn(turn_id="x", session_id="s"), {"session_id": "s3"}),
        (StartTurn(turn_id="x", session_id="s"), {"route_generation": 1}),
    ],
)
async def test_an_id_used_for_something_else_is_a_conflict(
    source: Source, command: Command, other: dict[str, object]
) -> None:
    await source.do(CreateSession(session_id="s3", task_id="t"))
    await source.do(command)
    state = await source.state()
    assert (await source.refusal(command.model_copy(update=other))).code == "conflict"
    assert await source.state() == state


async def test_an_explicit_time_must_come_after_the_newest_prompt(source: Source) -> None:
    await source.do(prompt(created_at="2026-05-01T10:00:00.5Z"))
    for early in ("2026-05-01T10:00:00.5Z", "2026-05-01T10:00:00Z"):
        failure = await source.refusal(prompt("n", created_at=early))
        assert failure.code == "conflict"
        assert failure.details == {"newest": "2026-05-01T10:00:00.5Z"}
    await source.do(prompt("n", created_at="2026-05-01T10:00:00.500001Z"))
    await source.do(prompt("a", author_type="agent", created_at="2020-01-01T00:00:00Z"))
    sequence = await source.pool.fetch("SELECT id, prompt_seq FROM task_session_messages ORDER BY id")
    assert [tuple(row) for row in sequence] == [("a", 0), ("m", 1), ("n", 2)]


async def test_an_update_needs_the_row_it_was_made_from(source: Source) -> None:
    await source.do(prompt())
    seen = await source.pool.fetchval("SELECT updated_at FROM task_session_messages")
    edit = UpdateMessage(message_id="m", session_id="s", content="one", expected_updated_at=format_microseconds(seen))
    done = await source.do(edit)
    assert done.revision == done.base_revision + 1
    now = await source.pool.fetchval("SELECT updated_at FROM task_session_messages")
    assert now > seen
    failure = await source.refusal(edit.model_copy(update={"content": "two"}))
    assert failure.code == "conflict"
    assert failure.details == {"updated_at": format_microseconds(now)}
    late = await source.do(edit)
    assert late.base_revision == late.revision == done.revision


async def test_an_update_may_expect_a_revision_instead(source: Source) -> None:
    result = await source.do(prompt())
    edit = UpdateMessage(message_id="m", session_id="s", metadata='{"a":1}', expected_revision=result.revision)
    await source.do(prompt("n"))
    failure = await source.refusal(edit)
    assert failure.code == "conflict"
    assert failure.details["revision"] == str(result.revision + 1)
    done = await source.do(edit.model_copy(update={"expected_revision": result.revision + 1}))
    assert (done.base_revision, done.revision) == (result.revision + 1, result.revision + 2)


async def test_of_two_updates_that_expect_one_revision_one_wins(source: Source) -> None:
    await source.do(prompt("m"))
    result = await source.do(prompt("n"))
    edits = [
        UpdateMessage(message_id=message, session_id="s", content="edited", expected_revision=result.revision)
        for message in ("m", "n")
    ]
    for _ in range(10):
        done = await asyncio.gather(*(source.do(edit) for edit in edits), return_exceptions=True)
        assert sum(isinstance(one, BaseException) for one in done) == 1
        revision = await source.revision()
        await source.pool.execute("UPDATE task_session_messages SET content = 'hello'")
        edits = [edit.model_copy(update={"expected_revision": revision + 1}) for edit in edits]


async def test_updated_at_grows_even_when_the_clock_is_behind_the_row(source: Source) -> None:
    await source.do(prompt())
    ahead = await source.pool.fetchval(
        "UPDATE task_session_messages SET updated_at = clock_timestamp() + interval '1 hour' RETURNING updated_at"
    )
    await source.do(AppendMessage(message_id="m", session_id="s", offset=5, text="!"))
    once = await source.pool.fetchval("SELECT updated_at FROM task_session_messages")
    assert once == ahead + 1
    await source.do(
        UpdateMessage(message_id="m", session_id="s", content="x", expected_updated_at=format_microseconds(once))
    )
    assert await source.pool.fetchval("SELECT updated_at FROM task_session_messages") == ahead + 2


async def test_deleting_what_is_not_there_is_done_already(source: Source) -> None:
    revision = await source.revision()
    gone = await source.do(DeleteMessage(message_id="nobody", session_id="s"))
    assert (gone.base_revision, gone.revision) == (revision, revision)
    assert (await source.do(DeleteSession(session_id="nobody"))).revision == 0
    assert (await source.do(DeleteTask(task_id="nobody"))).revision == 0


async def test_the_state_of_a_session_is_replaced_and_the_revision_stays(source: Source) -> None:
    revision = await source.revision()
    result = await source.do(UpdateSession(session_id="s", state="COMPLETED"))
    assert (result.session_id, result.base_revision, result.revision) == ("s", revision, revision)
    state, updated_at = await source.pool.fetchrow("SELECT state, updated_at FROM task_sessions WHERE id = 's'")
    assert state == "COMPLETED"
    await source.do(UpdateSession(session_id="s", state="COMPLETED"))
    assert await source.pool.fetchval("SELECT updated_at FROM task_sessions WHERE id = 's'") == updated_at
    assert (await source.refusal(UpdateSession(session_id="nobody", state="x"))).code == "not_found"


async def test_an_id_that_is_taken_is_told_before_the_task_is_made(source: Source) -> None:
    """By anybody's session. One that is the same in every way is told to nobody but who sees its task."""
    for command in story()[:3]:
        await source.do(command)
    for identity in (ANN, BOB):
        taken = await source.refusal(CreateSession(session_id="s2", task_id="nothing"), identity)
        free = await source.refusal(CreateSession(session_id="s9", task_id="nothing"), identity)
        assert (taken.code, free.code) == ("conflict", "not_found")
    assert (await source.refusal(story()[2], BOB)).code == "not_found"


async def test_a_message_of_another_session_is_not_reached_through_this_one(source: Source) -> None:
    await source.do(CreateSession(session_id="s3", task_id="t"))
    await source.do(prompt())
    state = await source.state()
    through = {"message_id": "m", "session_id": "s3"}
    assert (await source.refusal(AppendMessage(**through, offset=5, text="!"))).code == "not_found"
    update = UpdateMessage(**through, content="x", expected_revision=await source.revision("s3"))
    assert (await source.refusal(update)).code == "not_found"
    await source.do(DeleteMessage(**through))
    assert await source.state() == state


ANN, BOB, ADMIN = Identity(user="ann"), Identity(user="bob"), Identity(user="root", unscoped=True)


async def test_access_is_the_same_for_every_command(source: Source) -> None:
    for command in story()[:6]:
        await source.do(command)
    revision = await source.revision("s2")
    commands: list[Command] = [
        CreateTask(task_id="t9", workspace_id="w2", title=""),
        CreateSession(session_id="s9", task_id="t2"),
        prompt("m9", session_id="s2"),
        prompt("m8", task_id="t2"),
        StartTurn(turn_id="u9", session_id="s2"),
        AppendMessage(message_id="a2", session_id="s2", offset=0, text="x"),
        UpdateMessage(message_id="m2", session_id="s2", content="x", expected_revision=revision),
        CompleteTurn(turn_id="u2", session_id="s2"),
        DeleteMessage(message_id="m2", session_id="s2"),
        UpdateSession(session_id="s2", state="x"),
    ]
    deletions: list[Command] = [DeleteSession(session_id="s2"), DeleteTask(task_id="t2")]
    state = await source.state()
    for command in commands:
        assert (await source.refusal(command, BOB)).code == "not_found", command.kind
    # What is not there is deleted already, and so is what is not the asker's to see.
    nothing = await source.do(DeleteSession(session_id="nothing"), BOB)
    assert await source.do(deletions[0], BOB) == nothing.model_copy(update={"session_id": "s2"})
    assert await source.do(deletions[1], BOB) == await source.do(DeleteTask(task_id="nothing"), BOB)
    assert await source.state() == state
    await source.pool.execute("INSERT INTO workspace_members (workspace_id, user_id) VALUES ('w2', 'bob')")
    for number, command in enumerate([*commands, *deletions]):
        identity = (BOB, ANN, ADMIN)[number % 3]
        if isinstance(command, UpdateMessage):
            current = await source.revision("s2")
            await source.do(command.model_copy(update={"expected_revision": current}), identity)
        else:
            await source.do(command, identity)


async def test_nobody_makes_a_workspace_for_somebody_else(source: Source) -> None:
    theirs = CreateWorkspace(workspace_id="x", name="X", owner_id="ann")
    assert (await source.refusal(theirs, BOB)).code == "invalid_query"
    await source.do(theirs, ANN)
    assert (await source.refusal(CreateTask(task_id="x", workspace_id="x", title=""), BOB)).code == "not_found"


@pytest.mark.parametrize(
    "command",
    [
        prompt(content="a\x00b"),
        prompt(type="\x00"),
        prompt(created_at="2026-02-30T00:00:00Z"),
        prompt(created_at="9999-01-01T00:00:00Z"),
        prompt(created_at="9999-12-31T23:59:59.999999Z"),
        CreateSession(session_id="x", task_id="t", started_at="9999-01-01T00:00:00Z"),
        StartTurn(turn_id="x", session_id="s", started_at="9999-01-01T00:00:00Z"),
        CompleteTurn(turn_id="x", session_id="s", completed_at="9999-01-01T00:00:00Z"),
        StartTurn(turn_id="x", session_id="s", route_generation=1 << 70),
        StartTurn(turn_id="x", session_id="s", execution_profile_id="\x00"),
        CreateSession(session_id="x", task_id="t", started_at="2026-01-01T25:00:00Z"),
        CreateWorkspace(workspace_id="x", name="\x00"),
        CreateTask(task_id="x", workspace_id="w", title="\x00"),
        AppendMessage(message_id="m", session_id="s", offset=0, text="\x00"),
    ],
)
async def test_what_cannot_be_stored_is_refused_by_name(source: Source, command: Command) -> None:
    state = await source.state()
    failure = await source.refusal(command)
    assert failure.code == "invalid_query"
    assert await source.state() == state


async def test_the_last_time_that_a_row_may_have_leaves_room_behind_it(source: Source) -> None:
    await source.do(prompt(created_at="9998-12-31T23:59:59.999999Z"))
    await source.do(prompt("n"))
    found = await source.pool.fetch(
        "SELECT id FROM task_session_messages WHERE task_session_id = 's' ORDER BY prompt_seq"
    )
    assert [row["id"] for row in found][-2:] == ["m", "n"]


async def test_metadata_comes_back_as_it_was_given(source: Source) -> None:
    metadata = r'{"text":"é 👩‍🚀 \u0000 \"","big":1e30,"list":[1.5,null,{"a":false}]}'
    await source.do(prompt(metadata=metadata))
    stored = await source.pool.fetchval("SELECT metadata FROM task_session_messages WHERE id = 'm'")
    assert orjson.loads(stored) == orjson.loads(metadata)
    assert (await source.do(prompt(metadata=metadata))).revision == await source.revision()


@pytest.mark.parametrize("stored", ['{"a":"\u00e9","b":[1]}', r' { "b": [ 1 ], "a": "\u00e9" } '])
async def test_metadata_is_compared_as_what_it_says(source: Source, stored: str) -> None:
    given = '{"a":"é","b":[1]}'
    await source.do(prompt(metadata=given))
    await source.pool.execute("UPDATE task_session_messages SET metadata = $1 WHERE id = 'm'", stored)
    assert (await source.do(prompt(metadata=given))).revision == await source.revision()


@pytest.mark.parametrize("stored", ["", "{", "[]", '{"a":2}', '{"a":1}' + " " * (1 << 20)])
async def test_a_message_with_other_metadata_is_another_one(source: Source, stored: str) -> None:
    await source.do(prompt(metadata='{"a":1}'))
    await source.pool.execute("UPDATE task_session_messages SET metadata = $1 WHERE id = 'm'", stored)
    assert (await source.refusal(prompt(metadata='{"a":1}'))).code == "conflict"


async def test_ordinals_under_concurrent_creates_have_no_holes_and_follow_time(source: Source) -> None:
    await source.do(CreateSession(session_id="s3", task_id="t"))
    await asyncio.gather(
        *(
            source.do(prompt(f"{session}-{number}", session_id=session))
            for number in range(60)
            for session in ("s", "s3")
        ),
        *(source.do(prompt(f"s-{number}")) for number in range(0, 60, 3)),
        *(source.do(prompt(f"a-{number}", author_type="agent")) for number in range(20)),
    )
    for session in ("s", "s3"):
        rows = await source.pool.fetch(
            "SELECT prompt_seq FROM task_session_messages WHERE task_session_id = $1 AND author_type = 'user' "
            "ORDER BY created_at, id",
            session,
        )
        assert [row["prompt_seq"] for row in rows] == list(range(1, 61))
    assert await source.revision("s3") - 1 == 60


async def test_one_create_sent_many_times_at_once_is_one_message(source: Source) -> None:
    results = await asyncio.gather(*(source.do(prompt()) for _ in range(16)))
    assert sum(result.revision > result.base_revision for result in results) == 1
    assert await source.pool.fetchval("SELECT last_seq FROM task_session_prompt_seq") == 1
