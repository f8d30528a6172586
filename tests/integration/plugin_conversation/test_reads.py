"""What plugins read, and in which order their requests are checked."""

import itertools
import json
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from services.gateway.http.plugin_conversation import PageRequest
from services.gateway.identity.caller import LOCAL_CALLER
from services.gateway.plugins.bindings import Bindings
from services.gateway.plugins.cursors import Cursors, Selection
from services.gateway.plugins.keyring import Keyring, now_microseconds
from services.gateway.plugins.manifest import Manifest
from services.gateway.plugins.registry import ActivePlugin
from shared.contracts.errors import RequestFailed
from shared.contracts.reads import MAX_PAGE_ROWS, Keyset, MessagesAnswer
from shared.tokens import LIFETIME_SECONDS, MICROSECONDS
from tests.integration.plugin_conversation.plugins import Answer, Installed, Json, Plugin, installed
from tests.support.plugins import install, manifest
from tests.support.stack import Stack
from tests.support.waiting import eventually

_numbers = itertools.count()

PLUGIN_NOT_FOUND = (404, "not_found", "plugin not found", False)
NOT_BOUND = (401, "unauthenticated", "invalid conversation binding", False)
SESSION_NOT_FOUND = (404, "not_found", "task session not found", False)
OTHER_TASK = (400, "invalid_query", "task_id does not match the task session", False)
INVALID_CURSOR = (400, "invalid_query", "invalid cursor", False)
STALE_CURSOR = (409, "reconciliation_required", "conversation cursor is stale", True)
REVISION_CHANGED = (409, "reconciliation_required", "conversation revision changed", True)
BAD_LIMIT = (400, "invalid_query", "limit must be between 1 and 100", False)


@pytest.fixture
async def session_id(shared_stack: Stack) -> str:
    """A session of task `t`."""
    name = f"read{next(_numbers)}"
    await shared_stack.session(name)
    return name


async def fill(stack: Stack, session_id: str, count: int) -> list[str]:
    """Adds messages by turns of user and agent; their ids in order."""
    names = [f"{session_id}-{number}" for number in range(count)]
    for number, name in enumerate(names):
        await stack.add(session_id, name, author="agent" if number % 2 else "user")
    return names


async def add_turn(stack: Stack, session_id: str, turn_id: str, started_at: str, **more: Any) -> None:
    """Adds a turn by SQL."""
    moments = [datetime.fromisoformat(each) if each else None for each in (started_at, more.get("completed_at"))]
    await stack.pool.execute(
        "INSERT INTO task_session_turns (id, task_session_id, task_id, started_at, completed_at, metadata) "
        "VALUES ($1, $2, 't', $3, $4, $5)",
        turn_id,
        session_id,
        *moments,
        '{"secret": 1}',
    )


async def test_a_message_holds_what_a_plugin_may_see(shared_stack: Stack, plugin: Plugin, session_id: str) -> None:
    moment = datetime.fromisoformat("2026-09-16T12:00:00.250000+00:00")
    await shared_stack.pool.execute(
        "INSERT INTO task_session_messages (id, task_session_id, task_id, turn_id, author_type, author_id, content, "
        "requests_input, type, metadata, created_at, updated_at) "
        "VALUES ($1, $2, 't', 'u-3', 'user', 'somebody', $3, true, '', $4, $5, $5)",
        session_id + "m",
        session_id,
        "<kandev-system>hidden</kandev-system> shown <kandev-system>being written",
        json.dumps({"sender_task_id": "t-9", "secret": "no"}),
        moment,
    )
    answer = await plugin.read(session_id)
    revision = str(await shared_stack.revision(session_id))
    message = {
        "id": session_id + "m",
        "taskId": "t",
        "sessionId": session_id,
        "turnId": "u-3",
        "authorType": "user",
        "type": "message",
        "content": "shown",
        "createdAt": "2026-09-16T12:00:00.25Z",
        "updatedAt": "2026-09-16T12:00:00.25Z",
        "promptIndex": 1,
        "senderTaskId": "t-9",
    }
    epoch = answer.body["epoch"]
    assert answer.status == 200
    assert answer.body == {
        "messages": [message],
        "hasMore": False,
        "cursor": None,
        "epoch": epoch,
        "revision": revision,
    }
    assert (await plugin.read(session_id, "revision")).body == {"epoch": epoch, "revision": revision}


@pytest.mark.parametrize(
    "metadata", ["", "null", "[]", "{}", '{"sender_task_id": 7}', '{"sender_task_id": ["t"]}', '{"sender_task_id": ""}']
)
async def test_what_a_message_lacks_is_left_out(
    shared_stack: Stack, plugin: Plugin, session_id: str, metadata: str
) -> None:
    await shared_stack.pool.execute(
        "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content, type, metadata) "
        "VALUES ($1, $1, 't', 'agent', 'x', 'thinking', $2)",
        session_id,
        metadata,
    )
    (message,) = (await plugin.read(session_id)).body["messages"]
    assert set(message) == {"id", "taskId", "sessionId", "authorType", "type", "content", "createdAt", "updatedAt"}
    assert message["type"] == "thinking"


async def test_a_turn_holds_what_a_plugin_may_see(shared_stack: Stack, plugin: Plugin, session_id: str) -> None:
    await add_turn(shared_stack, session_id, session_id + "a", "2026-09-16T12:00:00+00:00")
    done = "2026-09-16T12:00:09+00:00"
    await add_turn(shared_stack, session_id, session_id + "b", "2026-09-16T12:00:01+00:00", completed_at=done)
    answer = await plugin.read(session_id, "turns")
    newest, oldest = answer.body.pop("turns")
    for turn in (newest, oldest):
        assert turn.pop("updatedAt")
    assert newest == {
        "id": session_id + "b",
        "taskId": "t",
        "sessionId": session_id,
        "startedAt": "2026-09-16T12:00:01Z",
        "completedAt": "2026-09-16T12:00:09Z",
    }
    assert oldest == {
        "id": session_id + "a",
        "taskId": "t",
        "sessionId": session_id,
        "startedAt": "2026-09-16T12:00:00Z",
    }
    revision = str(await shared_stack.revision(session_id))
    assert answer.body == {"hasMore": False, "cursor": None, "epoch": answer.body["epoch"], "revision": revision}


async def test_the_first_wrong_thing_is_told(shared_stack: Stack, plugin: Plugin, session_id: str) -> None:
    """Everything is wrong, and is put right one by one."""
    names = await fill(shared_stack, session_id, 2)
    good_cursor = (await plugin.read(session_id, limit=1, task_id="t")).body["cursor"]
    revision = await shared_stack.revision(session_id)
    asking, asked = Plugin(shared_stack, "nobody", "none"), "missing"
    wrong: Json = {"limit": "0", "task_id": "u", "cursor": "none", "expected_revision": revision + 1}
    assert (await asking.read(asked, **wrong)).error == PLUGIN_NOT_FOUND
    asking = replace(plugin, binding="none")
    assert (await asking.read(asked, **wrong)).error == NOT_BOUND
    asking = plugin
    assert (await asking.read(asked, **wrong)).error == BAD_LIMIT
    wrong["limit"] = "1"
    assert (await asking.read(asked, **wrong)).error == SESSION_NOT_FOUND
    asked = session_id
    assert (await asking.read(asked, **wrong)).error == OTHER_TASK
    wrong["task_id"] = "t"
    assert (await asking.read(asked, **wrong)).error == INVALID_CURSOR
    wrong["cursor"] = good_cursor
    assert (await asking.read(asked, **wrong)).error == REVISION_CHANGED
    wrong["expected_revision"] = revision
    found = await asking.read(asked, **wrong)
    assert (found.status, found.ids()) == (200, names[:1])


@pytest.mark.parametrize("what", ["messages", "turns", "revision"])
@pytest.mark.parametrize("missing", ["missing", "a" * 255, "a" * 256, "\x01", "\u0645", "..", "a/b", " "])
async def test_a_session_that_cannot_be_read_is_not_there(plugin: Plugin, what: str, missing: str) -> None:
    assert (await plugin.read(missing, what)).error == SESSION_NOT_FOUND


async def test_a_value_that_no_row_can_hold_is_told_in_its_turn(plugin: Plugin, session_id: str) -> None:
    nul = (400, "invalid_query", "task_id holds a NUL character, which no row can hold", False)
    assert (await replace(plugin, binding="x").read(session_id, task_id="\x00")).error == NOT_BOUND
    for session in (session_id, "missing"):
        assert (await plugin.read(session, task_id="\x00")).error == nul


@pytest.mark.parametrize("what", ["messages", "turns"])
async def test_an_odd_task_or_cursor_is_told_in_its_turn(
    shared_stack: Stack, plugin: Plugin, session_id: str, what: str
) -> None:
    for task in ("u", "\x01", "t ", "T", "a" * 300, "NULL", "\u0645"):
        assert (await plugin.read(session_id, what, task_id=task)).error == OTHER_TASK
        assert (await plugin.read("missing", what, task_id=task)).error == SESSION_NOT_FOUND
        assert (await plugin.read(session_id, what, task_id=task, cursor="x", expected_revision=0)).error == OTHER_TASK
    assert (await plugin.read("missing", what, cursor="x")).error == SESSION_NOT_FOUND
    assert (await plugin.read(session_id, what, cursor="x", expected_revision=0)).error == INVALID_CURSOR


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("limit", ["", "0", "101", "-1", "+5", "1.0", "many", " 5", "9" * 30, "\u0661"], BAD_LIMIT[2]),
        ("sort", ["", "ASC", "newest", " asc"], "sort must be asc or desc"),
        ("task_id", [""], "task_id must not be empty"),
        ("cursor", [""], "invalid cursor"),
        (
            "expected_revision",
            ["", "-1", "1.5", "x", str(1 << 63), "9" * 40],
            "expected_revision must be a nonnegative integer",
        ),
    ],
)
@pytest.mark.parametrize("what", ["messages", "turns"])
async def test_values_that_a_query_cannot_have(
    plugin: Plugin, name: str, values: list[str], message: str, what: str
) -> None:
    """Told before the session is looked for."""
    for value in values:
        answer = await plugin.read("missing", what, **{name: value})
        assert answer.error == (400, "invalid_query", message, False), value
    good = {"limit": "5", "sort": "asc", "task_id": "t", "cursor": "c", "expected_revision": "1"}[name]
    twice = await plugin.read("missing", what, **{name: [good, good]})
    assert twice.error == (400, "invalid_query", message, False)
    assert (await plugin.read("missing", what, **{name: good})).error == SESSION_NOT_FOUND


async def test_authors(shared_stack: Stack, plugin: Plugin, session_id: str) -> None:
    names = await fill(shared_stack, session_id, 4)
    newest_first = names[::-1]
    assert (await plugin.read(session_id)).ids() == newest_first
    assert (await plugin.read(session_id, author_type="user")).ids() == newest_first[1::2]
    assert (await plugin.read(session_id, author_type="agent")).ids() == newest_first[::2]
    assert (await plugin.read(session_id, author_type=["agent", "user"])).ids() == newest_first
    for wrong in ("", "User", "robot", ["user", "x"]):
        found = await plugin.read("missing", author_type=wrong)
        assert found.error == (400, "invalid_query", "unsupported author_type", False)
    for twice in (["user", "user"], ["user", "agent", "user"]):
        found = await plugin.read("missing", author_type=twice)
        assert found.error == (400, "invalid_query", "duplicate author_type", False)
    for any_author in ("user", "robot", ""):
        found = await plugin.read("missing", "turns", author_type=any_author)
        assert found.error == (400, "invalid_query", "author_type is not supported for turns", False)


async def test_defaults_and_bounds(shared_stack: Stack, plugin: Plugin, session_id: str) -> None:
    await shared_stack.pool.execute(
        "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type) "
        "SELECT $1 || n, $1, 't', 'agent' FROM generate_series(1, 120) n",
        session_id,
    )
    for query, rows in (({}, 20), ({"limit": 1}, 1), ({"limit": MAX_PAGE_ROWS}, MAX_PAGE_ROWS), ({"limit": "020"}, 20)):
        answer = await plugin.read(session_id, **query)
        assert (len(answer.ids()), answer.body["hasMore"]) == (rows, True)


async def test_tasks(shared_stack: Stack, plugin: Plugin, session_id: str) -> None:
    await shared_stack.add(session_id, session_id + "t")
    await shared_stack.add(session_id, session_id + "u", task_id="u")
    both = [session_id + "u", session_id + "t"]
    assert (await plugin.read(session_id)).ids() == both
    assert (await plugin.read(session_id, task_id="null")).ids() == both
    assert (await plugin.read(session_id, task_id="t")).ids() == both[1:]


async def test_a_message_of_no_task(shared_stack: Stack, plugin: Plugin, session_id: str) -> None:
    await shared_stack.add(session_id, session_id, task_id="")
    (message,) = (await plugin.read(session_id)).body["messages"]
    assert message["taskId"] is None


@pytest.mark.parametrize("what", ["messages", "turns"])
async def test_an_expected_revision(shared_stack: Stack, plugin: Plugin, session_id: str, what: str) -> None:
    await fill(shared_stack, session_id, 1)
    revision = await shared_stack.revision(session_id)
    assert (await plugin.read(session_id, what, expected_revision=revision)).status == 200
    assert (await plugin.read(session_id, what, expected_revision=f"0{revision}")).status == 200
    for other in (0, revision - 1, revision + 1, (1 << 63) - 1):
        assert (await plugin.read(session_id, what, expected_revision=other)).error == REVISION_CHANGED


@pytest.mark.parametrize("sort", ["asc", "desc"])
@pytest.mark.parametrize("what", ["messages", "turns"])
async def test_pages_hold_every_row_once(
    shared_stack: Stack, plugin: Plugin, session_id: str, sort: str, what: str
) -> None:
    """In the order of time and id, with rows of one microsecond on both sides of a page's edge."""
    if what == "messages":
        await shared_stack.pool.execute(
            "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, created_at) "
            "SELECT $1 || chr(97 + n), $1, 't', 'agent', '2026-01-01Z'::timestamptz + (n / 3) * interval '1 us' "
            "FROM generate_series(0, 10) n",
            session_id,
        )
    else:
        for number in range(11):
            await add_turn(
                shared_stack, session_id, session_id + chr(97 + number), f"2026-01-01T00:00:0{number // 3}+00:00"
            )
    names = [session_id + chr(97 + number) for number in range(11)]
    found: list[str] = []
    cursor: Json = {}
    pages = 0
    while True:
        answer = await plugin.read(session_id, what, limit=2, sort=sort, **cursor)
        found += answer.ids(what)
        pages += 1
        if not answer.body["hasMore"]:
            assert answer.body["cursor"] is None
            break
        cursor = {"cursor": answer.body["cursor"]}
    assert found == (names if sort == "asc" else names[::-1])
    assert pages == 6


@pytest.mark.parametrize("sort", ["asc", "desc"])
async def test_the_row_at_a_pages_edge_may_go(shared_stack: Stack, plugin: Plugin, session_id: str, sort: str) -> None:
    names = await fill(shared_stack, session_id, 5)
    expected = names if sort == "asc" else names[::-1]
    first = await plugin.read(session_id, limit=2, sort=sort)
    assert first.ids() == expected[:2]
    await shared_stack.pool.execute("DELETE FROM task_session_messages WHERE id = ANY ($1)", expected[1:3])
    second = await plugin.read(session_id, limit=2, sort=sort, cursor=first.body["cursor"])
    assert second.ids() == expected[3:]


async def test_a_page_ends_at_eight_mebibytes(shared_stack: Stack, plugin: Plugin, session_id: str) -> None:
    await shared_stack.pool.execute(
        "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content) "
        "SELECT $1 || n, $1, 't', 'agent', repeat('x', 3 << 20) FROM generate_series(1, 3) n",
        session_id,
    )
    first = await plugin.read(session_id, sort="asc")
    assert (first.ids(), first.body["hasMore"]) == ([session_id + "1", session_id + "2"], True)
    second = await plugin.read(session_id, sort="asc", cursor=first.body["cursor"])
    assert (second.ids(), second.body["hasMore"]) == ([session_id + "3"], False)


async def test_a_cursor_is_good_for_its_own_reading_alone(shared_stack: Stack, plugin: Plugin, session_id: str) -> None:
    """One thing is changed at a time."""
    names = await fill(shared_stack, session_id, 3)
    other = session_id + "other"
    await shared_stack.session(other)
    await fill(shared_stack, other, 3)
    query: Json = {"limit": 1, "sort": "asc", "task_id": "t", "author_type": ["agent", "user"]}
    first = await plugin.read(session_id, **query)
    query["cursor"] = first.body["cursor"]
    for changed in ({"limit": 2}, {"sort": "desc"}, {"task_id": "null"}, {"author_type": "user"}):
        assert (await plugin.read(session_id, **(query | changed))).error == INVALID_CURSOR, changed
    for absent in ("sort", "task_id", "author_type", "limit"):
        fewer = {name: value for name, value in query.items() if name != absent}
        assert (await plugin.read(session_id, **fewer)).error == INVALID_CURSOR, absent
    assert (await plugin.read(other, **query)).error == INVALID_CURSOR
    of_turns = {name: value for name, value in query.items() if name != "author_type"}
    assert (await plugin.read(session_id, "turns", **of_turns)).error == INVALID_CURSOR
    stranger = await installed(shared_stack, "stranger")
    assert (await stranger.read(session_id, **query)).error == INVALID_CURSOR
    # The order in which authors are named is nothing that a page depends on.
    again = await plugin.read(session_id, **(query | {"author_type": ["user", "agent"]}))
    assert (again.status, again.ids()) == (200, names[1:2])


def selection(session_id: str) -> Selection:
    """What a request without any parameter asks for."""
    return Selection("messages", session_id, None, (), "desc", 20)


async def generation_of(plugin: Plugin) -> int:
    """The plugin's generation, as its binding says."""
    found: int = (await plugin.get("/binding")).body["generation"]
    return found


async def test_a_cursor_of_another_user_or_time(plugin: Plugin, session_id: str, keyring: Keyring) -> None:
    epoch = (await plugin.read(session_id)).body["epoch"]
    active = Installed("reader", await generation_of(plugin))
    end = Keyset(time=0, id="x")
    now = now_microseconds()
    stranger = replace(LOCAL_CALLER, identity=LOCAL_CALLER.identity.model_copy(update={"user": "stranger"}))
    reading = selection(session_id)

    async def told(cursor: str) -> Answer:
        return await plugin.read(session_id, cursor=cursor)

    issuing = Cursors(keyring)
    assert (await told(issuing.issue(LOCAL_CALLER, active, reading, epoch, end))).status == 200
    assert (await told(issuing.issue(stranger, active, reading, epoch, end))).error == INVALID_CURSOR
    older = Cursors(keyring, lambda: now - LIFETIME_SECONDS * MICROSECONDS)
    assert (await told(older.issue(LOCAL_CALLER, active, reading, epoch, end))).error == INVALID_CURSOR
    assert (await told(issuing.issue(LOCAL_CALLER, active, reading, "another", end))).error == STALE_CURSOR
    binding = Bindings(keyring).issue(LOCAL_CALLER, active)
    assert (await told(binding.token)).error == INVALID_CURSOR
    stale = issuing.issue(LOCAL_CALLER, active, reading, "another", end)
    # A cursor that is no good comes before a revision that is another one, and behind the session.
    assert (await plugin.read(session_id, cursor=stale, expected_revision=77)).error == STALE_CURSOR
    assert (await plugin.read("missing", cursor=stale)).error == SESSION_NOT_FOUND


async def test_a_cursor_of_an_earlier_installation_is_stale(shared_stack: Stack, session_id: str) -> None:
    await fill(shared_stack, session_id, 2)
    before = await installed(shared_stack, "upgraded")
    cursor = (await before.read(session_id, limit=1)).body["cursor"]
    await install(shared_stack, "upgraded", gateways=())
    await eventually(lambda: before.read(session_id), lambda found: found.status == 401)
    after = await before.bound()
    assert (await after.read(session_id, limit=1, cursor=cursor)).error == STALE_CURSOR
    assert (await after.read(session_id, limit=2, cursor=cursor)).error == INVALID_CURSOR


async def test_a_page_that_says_more_and_has_nothing(session_id: str) -> None:
    """No reader answers so; if one did, a client would ask for ever."""
    declared = Manifest.model_validate(manifest("p"))
    wanted = PageRequest(ActivePlugin("p", "1.0.0", 1, "hash", declared), selection(session_id), None, None)
    answer = MessagesAnswer(
        epoch="e",
        primary=True,
        session_id=session_id,
        task_id="t",
        revision=1,
        rows=(),
        has_more=True,
        has_older=True,
        has_newer=False,
        end=None,
    )
    with pytest.raises(RequestFailed) as refused:
        wanted.require(answer)
    assert refused.value.failure.code == "upstream_failure"
    assert refused.value.failure.message == "conversation service returned an invalid page"
    wanted.require(answer.model_copy(update={"has_more": False}))
