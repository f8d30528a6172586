"""What selects which form of a session's messages, and what a task's page begins with."""

import itertools

import pytest

from services.gateway.http.lists import NEWEST_MESSAGES
from tests.integration.identity.people import People
from tests.support.socket_client import Json
from tests.support.stack import Stack

_numbers = itertools.count()


@pytest.fixture
async def task_id(shared_stack: Stack) -> str:
    """A task of the room, made by SQL."""
    name = f"task{next(_numbers)}"
    await shared_stack.pool.execute("INSERT INTO tasks (id, workspace_id, title) VALUES ($1, 'w', 'A title')", name)
    return name


async def begun(stack: Stack, task_id: str, session_id: str, minute: int) -> None:
    """A session that began at this minute."""
    started = f"2026-01-01T00:{minute:02}:00Z"
    body = {"id": session_id, "task_id": task_id, "started_at": started}
    assert (await stack.call("POST", "/api/v1/task-sessions", json=body))[0] == 200


async def messages(stack: Stack, session_id: str, query: str) -> Json:
    """A page, or everything."""
    status, body = await stack.call("GET", f"/api/v1/task-sessions/{session_id}/messages{query}")
    assert status == 200, body
    return body


@pytest.mark.parametrize(
    "query",
    ["limit=many", "limit=", "limit=0", "limit=-1", "sort=", "sort=asc", "before=", "after=", "around=", "limit=5"],
)
async def test_any_paging_parameter_selects_pages(shared_stack: Stack, task_id: str, query: str) -> None:
    await begun(shared_stack, task_id, task_id, 0)
    await shared_stack.add(task_id, task_id, task_id=task_id)
    page = await messages(shared_stack, task_id, f"?{query}")
    assert set(page) == {"messages", "total", "has_more", "cursor", "epoch", "revision"}
    assert (page["cursor"], page["messages"][0]["prompt_index"]) == (task_id, 1)


@pytest.mark.parametrize("query", ["", "?task_id=", "?author_type=user", "?unknown=1"])
async def test_without_one_it_is_everything_as_older_clients_know_it(
    shared_stack: Stack, task_id: str, query: str
) -> None:
    await begun(shared_stack, task_id, task_id, 0)
    await shared_stack.add(task_id, task_id, task_id=task_id)
    page = await messages(shared_stack, task_id, query)
    assert set(page) == {"messages", "total", "has_more", "cursor"}
    assert (page["total"], page["has_more"], page["cursor"]) == (1, False, "")
    assert "prompt_index" not in page["messages"][0]


@pytest.mark.parametrize("query", ["", "?limit=1", "?around=x"])
async def test_a_session_id_is_required(shared_stack: Stack, query: str) -> None:
    for path in ("task-sessions/%20/messages", "agent-sessions/%20/messages"):
        found = await shared_stack.call("GET", f"/api/v1/{path}{query}")
        assert found == (400, {"error": "task session id is required"})


async def test_a_task_begins_with_its_newest_session(shared_stack: Stack, task_id: str) -> None:
    older, newer = f"{task_id}-older", f"{task_id}-newer"
    await begun(shared_stack, task_id, newer, 2)
    await begun(shared_stack, task_id, older, 1)
    for number in range(NEWEST_MESSAGES + 3):
        await shared_stack.add(newer, f"{newer}-{number:02}", task_id=task_id)
    await shared_stack.add(older, f"{older}-m", author="agent", task_id=task_id)
    status, body = await shared_stack.call("GET", f"/api/v1/tasks/{task_id}")
    assert status == 200
    assert body["task"]["title"] == "A title"  # type: ignore[index] # a task
    assert [session["id"] for session in body["sessions"]] == [newer, older]  # type: ignore[attr-defined] # sessions
    assert body["active_session_id"] == newer
    page = await messages(shared_stack, newer, f"?sort=desc&limit={NEWEST_MESSAGES}")
    assert [row["prompt_index"] for row in page["messages"]] == list(range(NEWEST_MESSAGES + 3, 3, -1))
    assert body["messages"] == page
    _, body = await shared_stack.call("GET", f"/api/v1/tasks/{task_id}?session_id={older}")
    assert body["active_session_id"] == older
    assert body["messages"] == await messages(shared_stack, older, "?sort=desc&limit=20")


async def test_a_task_without_sessions(shared_stack: Stack, task_id: str) -> None:
    status, body = await shared_stack.call("GET", f"/api/v1/tasks/{task_id}")
    assert (status, body["sessions"], body["active_session_id"], body["messages"]) == (200, [], None, None)


@pytest.mark.parametrize("name", ["nowhere", "%00", "x" * 300, "a%0Ab", "%20", "'", "%ED%A0%80"])
async def test_tasks_and_sessions_that_are_not_there(shared_stack: Stack, task_id: str, name: str) -> None:
    assert await shared_stack.call("GET", f"/api/v1/tasks/{name}") == (404, {"error": "task not found"})
    status, _ = await shared_stack.call("GET", f"/api/v1/tasks/{task_id}?session_id={name}")
    assert status in {400, 404}


async def test_a_session_of_another_task(shared_stack: Stack, task_id: str) -> None:
    await shared_stack.session(f"{task_id}-elsewhere", "u")
    status, body = await shared_stack.call("GET", f"/api/v1/tasks/{task_id}?session_id={task_id}-elsewhere")
    assert (status, body) == (404, {"error": "task session not found"})


async def test_what_is_anothers_answers_like_what_is_not_there(accounts_stack: Stack, people: People) -> None:
    owner, stranger = await people.add(), await people.add()
    name = f"own{next(_numbers)}"
    pool = accounts_stack.pool
    await pool.execute("INSERT INTO workspaces (id, owner_id) VALUES ($1, $2)", name, owner.id)
    await pool.execute("INSERT INTO tasks (id, workspace_id) VALUES ($1, $1)", name)
    await accounts_stack.session(name, name)
    await accounts_stack.add(name, name, task_id=name)
    for path in (
        "task-sessions/{}/messages",
        "task-sessions/{}/messages?limit=1",
        "task-sessions/{}/messages?around={}",
        "task-sessions/{}/messages?before={}",
        "agent-sessions/{}/messages",
        "task-sessions/{}/turns",
        "tasks/{}",
        "tasks/{}?session_id={}",
    ):
        target = f"/api/v1/{path.replace('{}', name)}"
        assert (await accounts_stack.call("GET", target, headers=owner.bearer))[0] == 200, target
        of_another = await accounts_stack.call("GET", target, headers=stranger.bearer)
        of_nobody = await accounts_stack.call(
            "GET", f"/api/v1/{path.replace('{}', 'nowhere')}", headers=stranger.bearer
        )
        assert of_another == of_nobody
        assert of_another[0] == 404
