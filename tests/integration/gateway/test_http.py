"""Every first-party route: answers, errors, limits."""

import io
import itertools
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from yarl import URL

from shared.metadata import MAX_DEPTH
from shared.times import EARLIEST_TEXT, LATEST_TEXT
from tests.support.stack import Stack

_numbers = itertools.count()

Json = dict[str, Any]  # any: bodies are looked at field by field


@pytest.fixture
async def session_id(shared_stack: Stack) -> str:
    """A session of task `t`, made over HTTP."""
    name = f"http{next(_numbers)}"
    status, _ = await shared_stack.call("POST", "/api/v1/task-sessions", json={"id": name, "task_id": "t"})
    assert status == 200
    return name


async def get(stack: Stack, path: str) -> tuple[int, Json]:
    """Status and body of a read."""
    return await stack.call("GET", path)


async def post(stack: Stack, path: str, body: object) -> tuple[int, Json]:
    """Status and body of a write."""
    return await stack.call("POST", path, json=body)


async def patch(stack: Stack, path: str, body: object) -> tuple[int, Json]:
    """Status and body of a change."""
    return await stack.call("PATCH", path, json=body)


def ids(body: Json, name: str = "messages") -> list[str]:
    """The ids of a page's rows."""
    return [row["id"] for row in body[name]]


async def fill(stack: Stack, session_id: str, count: int) -> list[str]:
    """Adds messages by turns of user and agent; their ids in order."""
    names = [f"{session_id}-{number}" for number in range(count)]
    for number, name in enumerate(names):
        await stack.add(session_id, name, author="agent" if number % 2 else "user")
    return names


async def test_pages(shared_stack: Stack, session_id: str) -> None:
    names = await fill(shared_stack, session_id, 7)
    path = f"/api/v1/task-sessions/{session_id}/messages"
    revision = str(await shared_stack.revision(session_id))
    for query, expected, more in (
        ("limit=3", names[:3], True),
        ("limit=7", names, False),
        ("sort=desc", names[::-1], False),
        ("sort=DESC&limit=2", names[:4:-1], True),
        (f"after={names[2]}&limit=2", names[3:5], True),
        (f"after={names[6]}", [], False),
        (f"before={names[2]}&limit=5", names[:2], False),
        (f"before={names[4]}&sort=desc&limit=2", [names[3], names[2]], True),
        ("limit=many", names, False),
        ("limit=0", names, False),
        ("limit=-1", names, False),
        ("limit=100000000000000000000", names, False),
        ("limit=00000000000000003", names[:3], True),
        (" limit=3".strip() + "&author_type=user", names[:6:2], True),
        ("limit=9&author_type=agent", names[1::2], False),
        ("limit=9&author_type=agent&author_type=user", names, False),
        ("limit=9&task_id=t", names, False),
        ("limit=9&task_id=u", [], False),
    ):
        status, body = await get(shared_stack, f"{path}?{query}")
        assert status == 200, (query, body)
        assert (ids(body), body["has_more"]) == (expected, more), query
        assert body["total"] == len(expected)
        assert body["cursor"] == (expected[-1] if expected else "")
        assert body["revision"] == revision
        assert body["epoch"]


async def test_a_cursor_without_a_limit_gives_ten_rows(shared_stack: Stack, session_id: str) -> None:
    names = await fill(shared_stack, session_id, 12)
    path = f"/api/v1/task-sessions/{session_id}/messages"
    for query in (f"after={names[0]}", f"after={names[0]}&limit=0", f"after={names[0]}&limit=x"):
        status, body = await get(shared_stack, f"{path}?{query}")
        assert (status, ids(body), body["has_more"]) == (200, names[1:11], True)


async def test_no_page_has_more_than_a_hundred_rows(shared_stack: Stack, session_id: str) -> None:
    await shared_stack.pool.execute(
        "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type) "
        "SELECT $1 || '-many-' || n, $1, 't', 'agent' FROM generate_series(1, 130) n",
        session_id,
    )
    path = f"/api/v1/task-sessions/{session_id}/messages"
    for limit in ("101", "5000", "9" * 30):
        _, body = await get(shared_stack, f"{path}?limit={limit}")
        assert (body["total"], body["has_more"]) == (100, True)
    _, body = await get(shared_stack, path)
    assert (body["total"], body["has_more"], body["cursor"]) == (130, False, "")


async def test_around_a_row(shared_stack: Stack, session_id: str) -> None:
    names = await fill(shared_stack, session_id, 9)
    path = f"/api/v1/task-sessions/{session_id}/messages"
    _, body = await get(shared_stack, f"{path}?around={names[4]}&limit=3")
    assert (ids(body), body["has_older"], body["has_newer"]) == (names[3:6], True, True)
    _, body = await get(shared_stack, f"{path}?around={names[0]}&limit=3")
    assert names[0] in ids(body)
    assert (body["has_older"], body["has_newer"]) == (False, True)
    _, body = await get(shared_stack, f"{path}?around={names[4]}&limit=50")
    assert (ids(body), body["has_older"], body["has_newer"]) == (names, False, False)


async def test_the_form_of_older_clients(shared_stack: Stack, session_id: str) -> None:
    """No paging parameter: the whole session, without ordinals, cursor, epoch or revision."""
    names = await fill(shared_stack, session_id, 3)
    for route in ("task-sessions", "agent-sessions"):
        status, body = await get(shared_stack, f"/api/v1/{route}/{session_id}/messages")
        assert (status, set(body)) == (200, {"messages", "total", "has_more", "cursor"})
        assert (ids(body), body["total"], body["has_more"], body["cursor"]) == (names, 3, False, "")
        assert all("prompt_index" not in row for row in body["messages"])
    _, page = await get(shared_stack, f"/api/v1/task-sessions/{session_id}/messages?limit=3")
    assert [row.get("prompt_index") for row in page["messages"]] == [1, None, 2]


async def test_reads_are_not_stored_by_caches(shared_stack: Stack, session_id: str) -> None:
    answered = [f"task-sessions/{session_id}/messages", f"task-sessions/{session_id}/turns", "tasks"]
    for path in (*answered, "task-sessions/missing/messages", "nowhere", "tasks?workspace_id=%00"):
        async with shared_stack.http.get(f"{shared_stack.url}/api/v1/{path}") as answer:
            assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("before=a&after=b", "only one of before or after can be set"),
        ("before=a&around=b", "only one of before, after or around can be set"),
        ("after=a&around=b", "only one of before, after or around can be set"),
        ("sort=sideways", "sort must be asc or desc"),
        ("limit=1&author_type=robot", "unsupported author_type"),
        ("limit=1&author_type=", "unsupported author_type"),
        ("limit=1&author_type=user&author_type=user", "duplicate author_type"),
        ("limit=1&task_id=%00", "task_id holds a NUL character, which no row can hold"),
        ("after=a%00b", "after holds a NUL character, which no row can hold"),
        ("task_id=t&unknown=%00", "unknown holds a NUL character, which no row can hold"),
    ],
)
async def test_queries_that_cannot_be(shared_stack: Stack, session_id: str, query: str, error: str) -> None:
    found = await get(shared_stack, f"/api/v1/task-sessions/{session_id}/messages?{query}")
    assert found == (400, {"error": error})


@pytest.mark.parametrize("position", ["before", "after"])
async def test_a_cursor_of_nowhere(shared_stack: Stack, session_id: str, position: str) -> None:
    status, body = await get(shared_stack, f"/api/v1/task-sessions/{session_id}/messages?{position}=nowhere")
    assert (status, set(body)) == (400, {"error"})


async def test_around_an_unknown_row(shared_stack: Stack, session_id: str) -> None:
    status, body = await get(shared_stack, f"/api/v1/task-sessions/{session_id}/messages?around=nowhere")
    assert (status, set(body)) == (404, {"error"})


@pytest.mark.parametrize("name", ["nowhere", "x" * 300, "%00", "a%0Ab", "%F0%9F%98%80", "a%2Fb", "'", "%25"])
async def test_unknown_sessions(shared_stack: Stack, name: str) -> None:
    for path in (f"{name}/messages", f"{name}/messages?limit=1", f"{name}/turns", f"{name}/turns?limit=2&after=x"):
        status, body = await get(shared_stack, f"/api/v1/task-sessions/{path}")
        assert (status, set(body)) == (404, {"error"}), path


async def test_turns(shared_stack: Stack, session_id: str) -> None:
    path = f"/api/v1/task-sessions/{session_id}/turns"
    names = [f"{session_id}-{number}" for number in range(3)]
    for name in names:
        status, _ = await post(shared_stack, path, {"id": name})
        assert status == 200
    status, body = await get(shared_stack, path)
    assert (status, ids(body, "turns"), body["total"], body["has_more"]) == (200, names, 3, False)
    assert "completed_at" not in body["turns"][0]
    _, body = await get(shared_stack, f"{path}?limit=1&after={names[0]}")
    assert (ids(body, "turns"), body["has_more"]) == ([names[1]], True)
    status, done = await post(shared_stack, f"{path}/{names[0]}/complete", {})
    assert (status, int(done["revision"])) == (200, int(done["base_revision"]) + 1)
    _, body = await get(shared_stack, path)
    assert body["turns"][0]["completed_at"]
    assert body["revision"] == done["revision"]


async def test_lists(shared_stack: Stack, session_id: str) -> None:
    for name in ("workspaces", "tasks", "task-sessions"):
        status, body = await get(shared_stack, f"/api/v1/{name}")
        rows = body["sessions" if name == "task-sessions" else name]
        assert (status, body["total"]) == (200, len(rows))
        assert rows
    for query, found in (("task-sessions?task_id=t", True), ("task-sessions?task_id=u", False)):
        _, body = await get(shared_stack, f"/api/v1/{query}")
        assert (session_id in ids(body, "sessions")) is found
    _, body = await get(shared_stack, "/api/v1/tasks?workspace_id=nowhere")
    assert body == {"tasks": [], "total": 0}
    for query in ("tasks?workspace_id=%00", "task-sessions?task_id=%00"):
        name = query.split("?")[1].removesuffix("=%00")
        refused = (400, {"error": f"{name} holds a NUL character, which no row can hold"})
        assert await get(shared_stack, f"/api/v1/{query}") == refused
    for query in ("tasks?workspace_id=", "task-sessions?task_id="):
        assert (await get(shared_stack, f"/api/v1/{query}"))[1]["total"] > 0
    for query in ("tasks?workspace_id=%20w", "task-sessions?task_id=t%20"):
        assert (await get(shared_stack, f"/api/v1/{query}"))[1]["total"] == 0


async def test_a_message_from_its_creation_to_its_end(shared_stack: Stack, session_id: str) -> None:
    path = f"/api/v1/task-sessions/{session_id}/messages"
    name = f"{session_id}-m"
    status, made = await post(shared_stack, path, {"id": name, "author_type": "agent", "content": "one"})
    assert (status, set(made)) == (200, {"session_id", "epoch", "base_revision", "revision"})
    assert (made["session_id"], int(made["revision"])) == (session_id, int(made["base_revision"]) + 1)
    status, again = await post(shared_stack, path, {"id": name, "author_type": "agent", "content": "one"})
    assert (status, again["base_revision"], again["revision"]) == (200, made["revision"], made["revision"])
    status, _ = await post(shared_stack, f"{path}/{name}/append", {"offset": 3, "text": " two"})
    assert status == 200
    status, refused = await post(shared_stack, f"{path}/{name}/append", {"offset": 99, "text": "x"})
    assert (status, refused["error"]["code"], refused["error"]["retryable"]) == (409, "conflict", False)
    assert refused["error"]["details"]["length"] == 7
    _, page = await get(shared_stack, f"{path}?limit=1")
    change = {"content": "three", "expected_updated_at": page["messages"][0]["updated_at"]}
    status, changed = await patch(shared_stack, f"{path}/{name}", change)
    assert status == 200
    status, refused = await patch(shared_stack, f"{path}/{name}", {**change, "content": "four"})
    assert (status, refused["error"]["code"]) == (409, "conflict")
    _, page = await get(shared_stack, f"{path}?limit=1")
    assert page["messages"][0]["content"] == "three"
    assert page["revision"] == changed["revision"]
    assert (await shared_stack.call("DELETE", f"{path}/{name}"))[0] == 200
    status, again = await shared_stack.call("DELETE", f"{path}/{name}")
    assert (status, again["base_revision"]) == (200, again["revision"])
    _, page = await get(shared_stack, path)
    assert page["messages"] == []


async def test_a_read_after_a_write_shows_it(shared_stack: Stack, session_id: str) -> None:
    """G2: the gateway asks for no less than it was told."""
    path = f"/api/v1/task-sessions/{session_id}/messages"
    for number in range(30):
        _, made = await post(shared_stack, path, {"id": f"{session_id}-{number}", "author_type": "agent"})
        _, page = await get(shared_stack, f"{path}?sort=desc&limit=1")
        assert int(page["revision"]) >= int(made["revision"])
        assert ids(page) == [f"{session_id}-{number}"]


REFUSED_WRITES: list[tuple[str, str, object, int]] = [
    ("POST", "workspaces", {"name": "no id"}, 400),
    ("POST", "workspaces", {"id": "", "name": "x"}, 400),
    ("POST", "workspaces", {"id": "a\u0000b", "name": "x"}, 400),
    ("POST", "workspaces", {"id": "x" * 256, "name": "x"}, 400),
    ("POST", "workspaces", {"id": "zero", "name": "a\u0000b"}, 400),
    ("POST", "workspaces", [], 400),
    ("POST", "workspaces", "text", 400),
    ("POST", "workspaces", None, 400),
    ("POST", "tasks", {"id": "orphan", "workspace_id": "nowhere", "title": "x"}, 404),
    ("POST", "tasks", {"id": "untitled", "workspace_id": "w"}, 400),
    ("POST", "task-sessions", {"id": "orphan", "task_id": "nowhere"}, 404),
    ("POST", "task-sessions", {"id": "early", "task_id": "t", "started_at": "yesterday"}, 400),
    ("POST", "task-sessions", {"id": "early", "task_id": "t", "started_at": "2026-13-45T99:00:00Z"}, 400),
    ("POST", "task-sessions/nowhere/messages", {"id": "m", "author_type": "user"}, 404),
    ("POST", "task-sessions/{}/messages", {"author_type": "user"}, 400),
    ("POST", "task-sessions/{}/messages", {"id": "m1", "author_type": "robot"}, 400),
    ("POST", "task-sessions/{}/messages", {"id": "m1", "author_type": "user", "content": 7}, 400),
    ("POST", "task-sessions/{}/messages", {"id": "m1", "author_type": "user", "metadata": []}, 400),
    ("POST", "task-sessions/{}/messages", {"id": "m1", "author_type": "user", "content": "a\u0000b"}, 400),
    ("PATCH", "task-sessions/{}/messages/m", {"content": "unguarded"}, 400),
    ("DELETE", "task-sessions/{}/messages/a%00b", None, 400),
    ("DELETE", "task-sessions/a%00b", None, 400),
    ("PATCH", "task-sessions/{}/messages/nowhere", {"content": "x", "expected_revision": 1}, 404),
    ("PATCH", "task-sessions/{}/messages/nowhere", {"content": "x", "expected_revision": -1}, 400),
    ("POST", "task-sessions/{}/messages/nowhere/append", {"offset": 0, "text": "x"}, 404),
    ("POST", "task-sessions/{}/messages/nowhere/append", {"offset": -1, "text": "x"}, 400),
    ("POST", "task-sessions/{}/messages/nowhere/append", {"text": "x"}, 400),
    ("POST", "task-sessions/nowhere/turns", {"id": "turn"}, 404),
    ("POST", "task-sessions/{}/turns", {"id": "turn", "route_generation": 2**63}, 400),
    ("POST", "task-sessions/{}/turns/nowhere/complete", {}, 404),
]


async def test_writes_that_cannot_be(shared_stack: Stack, session_id: str) -> None:
    for method, path, body, expected in REFUSED_WRITES:
        status, found = await shared_stack.call(method, "/api/v1/" + path.format(session_id), json=body)
        assert status == expected, (path, body, found)
        error = found["error"]
        assert isinstance(error, dict)
        assert set(error) == {"code", "message", "retryable", "details"}
        assert error["retryable"] is False
    _, page = await get(shared_stack, f"/api/v1/task-sessions/{session_id}/messages")
    assert page["messages"] == []


@pytest.mark.parametrize("body", [b"{", b"\xff", b"nul", b'{"id":"\\ud800"}', b"[" * 5000])
async def test_bodies_that_are_not_json(shared_stack: Stack, body: bytes) -> None:
    status, found = await shared_stack.call("POST", "/api/v1/workspaces", data=body)
    assert status == 400
    error = found["error"]
    assert isinstance(error, dict)
    assert error["code"] == "invalid_query"


@pytest.mark.parametrize("path", ["task-sessions/nowhere", "tasks/nowhere"])
async def test_deleting_what_is_not_there(shared_stack: Stack, path: str) -> None:
    status, found = await shared_stack.call("DELETE", f"/api/v1/{path}")
    assert status in {200, 404}
    assert found


async def test_unknown_routes_and_methods_are_refused_in_json(shared_stack: Stack) -> None:
    assert await get(shared_stack, "/") == (404, {"error": "not found"})
    assert await get(shared_stack, "/api/v1/nothing") == (404, {"error": "not found"})
    assert await shared_stack.call("PUT", "/api/v1/tasks", json={}) == (405, {"error": "method not allowed"})
    async with shared_stack.http.put(f"{shared_stack.url}/api/v1/tasks") as answer:
        assert set(answer.headers["Allow"].split(",")) >= {"GET", "POST"}
    status, body = await get(shared_stack, "/ws")
    assert (status, set(body)) == (400, {"error"})


async def test_pages_of_permitted_origins_may_ask_and_read(shared_stack: Stack) -> None:
    origin = {"Origin": "http://localhost:3000"}
    asks = {**origin, "Access-Control-Request-Method": "PATCH", "Access-Control-Request-Headers": "content-type"}
    async with shared_stack.http.options(f"{shared_stack.url}/api/v1/workspaces", headers=asks) as answer:
        assert (answer.status, await answer.read()) == (204, b"")
        assert "PATCH" in answer.headers["Access-Control-Allow-Methods"]
        assert "Content-Type" in answer.headers["Access-Control-Allow-Headers"]
        preflight = answer.headers
    for path, expected in (
        ("/api/v1/workspaces", 200),
        ("/api/v1/nothing", 404),
        ("/api/v1/task-sessions/no/turns", 404),
    ):
        async with shared_stack.http.get(f"{shared_stack.url}{path}", headers=origin) as answer:
            assert answer.status == expected
            for headers in (answer.headers, preflight):
                assert headers["Access-Control-Allow-Origin"] == "http://localhost:3000"
                assert headers["Access-Control-Allow-Credentials"] == "true"
                assert "Origin" in headers.getall("Vary")


@pytest.mark.parametrize("origin", [None, "http://evil.example.com", "null", "http://localhost.evil.example.com"])
@pytest.mark.parametrize("method", ["OPTIONS", "GET", "DELETE"])
async def test_no_other_page_is_told_anything(shared_stack: Stack, method: str, origin: str | None) -> None:
    headers = {"Access-Control-Request-Method": "GET"} | ({} if origin is None else {"Origin": origin})
    async with shared_stack.http.request(method, f"{shared_stack.url}/api/v1/workspaces", headers=headers) as answer:
        assert answer.status == (403 if origin else {"OPTIONS": 405, "GET": 200, "DELETE": 405}[method])
        assert answer.headers["Vary"] == "Origin"
        assert not [name for name in answer.headers if name.startswith("Access-Control")]


async def test_a_body_that_is_too_large(shared_stack: Stack) -> None:
    status, body = await shared_stack.call("POST", "/api/v1/workspaces", data=io.BytesIO(bytes((32 << 20) + 1)))
    assert status == 413
    assert body["error"] == {"code": "too_large", "message": "the body is too large", "retryable": False, "details": {}}


async def test_a_body_that_is_not_what_its_headers_say(shared_stack: Stack) -> None:
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    status, body = await shared_stack.call("POST", "/api/v1/workspaces", headers=headers, data=b"no gzip at all")
    assert status == 400
    assert body["error"] == {
        "code": "invalid_query",
        "message": "the body is not what its headers say",
        "retryable": False,
        "details": {},
    }


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS", "PUT"])
@pytest.mark.parametrize(
    "header",
    [
        {"Host": "evil.example.com"},
        {"Origin": "http://evil.example.com"},
        {"Origin": "null"},
        {"Host": "evil.example.com", "Origin": "http://evil.example.com"},
    ],
)
async def test_foreign_pages_are_refused(shared_stack: Stack, method: str, header: dict[str, str]) -> None:
    for path in ("/api/v1/workspaces", "/health", "/nowhere"):
        status, body = await shared_stack.call(method, path, headers=header, json={"id": "foreign", "name": "x"})
        assert (status, set(body)) == (403, {"error"})
    _, listed = await get(shared_stack, "/api/v1/workspaces")
    assert "foreign" not in ids(listed, "workspaces")


async def test_refusals_before_a_route_is_asked_have_its_form(shared_stack: Stack) -> None:
    for headers, query, told in (
        ({"Origin": "https://evil.example"}, "", "forbidden"),
        ({}, "?x=%00", "invalid_query"),
    ):
        _, body = await shared_stack.call("POST", f"/api/v1/workspaces{query}", headers=headers, json={})
        assert isinstance(body["error"], dict)
        assert body["error"]["code"] == told
        _, body = await shared_stack.call("GET", f"/api/v1/workspaces{query}", headers=headers)
        assert isinstance(body["error"], str)


async def test_the_local_users_own_pages_are_served(shared_stack: Stack) -> None:
    for headers in ({"Origin": "http://localhost:5173"}, {"Host": "localhost:1"}, {"Host": "[::1]:1"}, {}):
        status, _ = await shared_stack.call("GET", "/api/v1/workspaces", headers=headers)
        assert status == 200


async def test_health_and_readiness(shared_stack: Stack) -> None:
    assert await get(shared_stack, "/health") == (200, {"status": "alive"})
    assert await get(shared_stack, "/ready") == (200, {"status": "ready"})
    assert await shared_stack.status("gateway") == (200, {"status": "ready"})


async def test_an_answer_that_the_gateway_cannot_read_is_an_error_in_json(shared_stack: Stack, session_id: str) -> None:
    """Metadata nested deeper than the contracts' parser goes: the service goes on, for this session too."""
    deep = '{"a":' * 250 + "1" + "}" * 250
    client = await shared_stack.connect()
    await client.subscribe(session_id, session_id)
    await shared_stack.pool.execute(
        "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, metadata) "
        "VALUES ($1, $1, 't', 'agent', $2)",
        session_id,
        deep,
    )
    status, body = await get(shared_stack, f"/api/v1/task-sessions/{session_id}/messages")
    assert (status, bool(body)) in {(200, True), (500, True)}
    await client.reached(await shared_stack.revision(session_id), session_id)
    assert (await get(shared_stack, "/health"))[0] == 200


NOT_OF_THEIR_TYPE: list[tuple[str, str, dict[str, object], str]] = [
    ("POST", "messages", {"id": "m", "author_type": "user", "requests_input": "yes"}, "requests_input"),
    ("POST", "messages", {"id": "m", "author_type": "user", "requests_input": 1}, "requests_input"),
    ("POST", "messages", {"id": "m", "author_type": "user", "requests_input": "true"}, "requests_input"),
    ("POST", "messages", {"id": "m", "author_type": "user", "content": 7}, "content"),
    ("POST", "messages", {"id": 7, "author_type": "user"}, "id: expected a string"),
    ("POST", "messages", {"author_type": "user"}, "id: required"),
    ("PATCH", "messages/m", {"content": "x", "expected_revision": 1.0}, "expected_revision"),
    ("PATCH", "messages/m", {"requests_input": 0, "expected_revision": 1}, "requests_input"),
    ("POST", "messages/m/append", {"offset": True, "text": "x"}, "offset"),
    ("POST", "messages/m/append", {"offset": "0", "text": "x"}, "offset"),
    ("POST", "messages/m/append", {"offset": 0.0, "text": "x"}, "offset"),
    ("POST", "turns", {"id": "turn", "route_generation": "1"}, "route_generation"),
    ("POST", "turns", {"id": "turn", "route_generation": False}, "route_generation"),
]


NO_REVISIONS: list[object] = ["", "01", "-1", "1.0", "+1", " 1", "one", "\u0661", "9" * 20, "9" * 5000, ["1"], True]


async def test_what_is_no_revision(shared_stack: Stack, session_id: str) -> None:
    for given in NO_REVISIONS:
        body = {"content": "x", "expected_revision": given}
        status, found = await patch(shared_stack, f"/api/v1/task-sessions/{session_id}/messages/m", body)
        assert (status, error_of(found)["code"]) == (400, "invalid_query"), given
        assert str(error_of(found)["message"]).startswith("expected_revision: expected "), given


async def test_fields_are_of_their_json_type(shared_stack: Stack, session_id: str) -> None:
    for method, path, body, field in NOT_OF_THEIR_TYPE:
        status, found = await shared_stack.call(method, f"/api/v1/task-sessions/{session_id}/{path}", json=body)
        assert (status, error_of(found)["code"]) == (400, "invalid_query"), body
        assert field in error_of(found)["message"]


UNKNOWN_FIELDS: list[tuple[str, str, dict[str, object], str]] = [
    ("POST", "workspaces", {"id": "unknown", "name": "x", "workspace_id": "unknown"}, "workspace_id"),
    ("POST", "tasks", {"id": "unknown", "workspace_id": "w", "title": "x", "titel": "x"}, "titel"),
    ("POST", "task-sessions", {"id": "unknown", "task_id": "t", "kind": "create_session"}, "kind"),
    ("PATCH", "task-sessions/{}", {"state": "RUNNING", "staet": "x"}, "staet"),
    ("POST", "task-sessions/{}/messages", {"id": "unknown", "author_type": "user", "contnt": "x"}, "contnt"),
    ("POST", "task-sessions/{}/messages", {"id": "unknown", "author_type": "user", "session_id": "x"}, "session_id"),
    ("PATCH", "task-sessions/{}/messages/{}-0", {"content": "x", "expected_revision": 0, "x" * 5000: 1}, "x" * 100),
    ("POST", "task-sessions/{}/messages/{}-0/append", {"offset": 0, "text": "x", "of\x00set": 1}, "of\x00set"),
    ("POST", "task-sessions/{}/turns", {"id": "unknown", "": 1}, ""),
    ("POST", "task-sessions/{}/turns/turn/complete", {"turn_id": "turn"}, "turn_id"),
]


async def test_a_field_that_there_is_not_is_named(shared_stack: Stack, session_id: str) -> None:
    """Nothing is done then: it may be a misspelt one, and leaving it out would be another command."""
    await shared_stack.add(session_id, f"{session_id}-0")
    before = await shared_stack.revision(session_id)
    for method, path, body, name in UNKNOWN_FIELDS:
        where = "/api/v1/" + path.replace("{}", session_id)
        status, found = await shared_stack.call(method, where, json=body)
        assert (status, error_of(found)["code"]) == (400, "invalid_query"), path
        assert str(error_of(found)["message"]).startswith(f"{name}: no such field; there are: "), path
    assert await shared_stack.revision(session_id) == before
    _, found = await shared_stack.call("POST", "/api/v1/prompts", json={"name": "n", "content": "c", "contnt": "c"})
    assert error_of(found)["message"] == "contnt: no such field"


async def test_revisions_are_text_wherever_they_are_told(shared_stack: Stack, session_id: str) -> None:
    """A list, a task, a writer's answer, a page; and what was told may be sent back as it is."""
    path, name = f"/api/v1/task-sessions/{session_id}/messages", f"{session_id}-0"
    _, made = await post(shared_stack, path, {"id": name, "author_type": "agent", "content": "one"})
    _, listed = await get(shared_stack, "/api/v1/task-sessions?task_id=t")
    _, task = await get(shared_stack, f"/api/v1/tasks/t?session_id={session_id}")
    for sessions in (listed["sessions"], task["sessions"]):
        assert isinstance(sessions, list)
        assert [each["revision"] for each in sessions if each["id"] == session_id] == [made["revision"]]
    change = {"content": "two", "expected_revision": made["revision"]}
    status, changed = await patch(shared_stack, f"{path}/{name}", change)
    assert (status, changed["base_revision"]) == (200, made["revision"])
    assert (await patch(shared_stack, f"{path}/{name}", {**change, "content": "three"}))[0] == 409
    change = {"content": "three", "expected_revision": int(str(changed["revision"]))}
    assert (await patch(shared_stack, f"{path}/{name}", change))[0] == 200


def error_of(body: Json) -> Json:
    """The typed error of a writers' route."""
    error = body["error"]
    assert isinstance(error, dict)
    return error


def nested(depth: int) -> Json:
    """Metadata of that many levels."""
    found: Json = {}
    for _ in range(depth - 1):
        found = {"a": found}
    return found


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 199, 300, 900])
async def test_metadata_that_is_nested_too_deep_is_refused(shared_stack: Stack, session_id: str, depth: int) -> None:
    path = f"/api/v1/task-sessions/{session_id}"
    await fill(shared_stack, session_id, 1)
    for method, where, body in (
        ("POST", f"{path}/messages", {"id": f"{session_id}-deep", "author_type": "user"}),
        ("PATCH", f"{path}/messages/{session_id}-0", {"expected_revision": 1}),
        ("POST", f"{path}/turns", {"id": f"{session_id}-deep"}),
        ("POST", "/api/v1/task-sessions", {"id": f"{session_id}-deep", "task_id": "t"}),
    ):
        status, found = await shared_stack.call(method, where, json={**body, "metadata": nested(depth)})
        assert (status, error_of(found)["code"]) == (400, "invalid_query")
        assert "metadata: " in error_of(found)["message"]
        assert f"nested deeper than {MAX_DEPTH} levels" in error_of(found)["message"]


async def test_metadata_at_the_deepest_is_read_as_it_was_written(shared_stack: Stack, session_id: str) -> None:
    path = f"/api/v1/task-sessions/{session_id}/messages"
    body = {"id": f"{session_id}-m", "author_type": "user", "metadata": nested(MAX_DEPTH)}
    assert (await post(shared_stack, path, body))[0] == 200
    _, page = await get(shared_stack, path)
    assert page["messages"][0]["metadata"] == nested(MAX_DEPTH)


@pytest.mark.parametrize("name", [" m", "m ", " ", "\u3000m", "m\u00a0"])
async def test_a_new_id_has_no_white_space_around_it(shared_stack: Stack, session_id: str, name: str) -> None:
    path = f"/api/v1/task-sessions/{session_id}"
    for where, body in (
        (f"{path}/messages", {"author_type": "user"}),
        (f"{path}/turns", {}),
        ("/api/v1/task-sessions", {"task_id": "t"}),
        ("/api/v1/tasks", {"workspace_id": "w", "title": "x"}),
        ("/api/v1/workspaces", {"name": "x"}),
    ):
        status, found = await post(shared_stack, where, {"id": name, **body})
        assert (status, error_of(found)["code"]) == (400, "invalid_query"), where
        assert "white space" in error_of(found)["message"]


async def test_ids_that_plain_sql_has_given_are_read_as_they_are(shared_stack: Stack, session_id: str) -> None:
    names = [f"{session_id}{suffix}" for suffix in (" a ", "b ", "b", "c\t", "d+&%e ")]
    names[0] = " " + names[0]
    for name in names:
        await shared_stack.add(session_id, name, author="agent")
    path = f"/api/v1/task-sessions/{session_id}/messages"
    for number, name in enumerate(names):
        _, body = await get(shared_stack, f"{path}?after={quote(name, safe='')}")
        assert ids(body) == names[number + 1 :]
        _, body = await get(shared_stack, f"{path}?before={quote(name, safe='')}&limit=9")
        assert ids(body) == names[:number]
        _, body = await get(shared_stack, f"{path}?around={quote(name, safe='')}&limit=1")
        assert ids(body) == [name]
    session = f" {session_id} "
    await shared_stack.pool.execute("INSERT INTO task_sessions (id, task_id) VALUES ($1, 't')", session)
    where = f"/api/v1/task-sessions/{quote(session, safe='')}/messages"
    assert (await post(shared_stack, where, {"id": f"{session_id}-in", "author_type": "agent"}))[0] == 200
    assert ids((await get(shared_stack, where))[1]) == [f"{session_id}-in"]


@pytest.mark.parametrize("path", ["%FF", "a%FFb", "%ED%A0%80", "%C3"])
async def test_a_path_that_is_no_text(shared_stack: Stack, path: str) -> None:
    for method, where in (
        ("GET", f"task-sessions/{path}/messages"),
        ("GET", f"task-sessions/{path}/turns?limit=1"),
        ("DELETE", f"task-sessions/{path}"),
        ("DELETE", f"tasks/{path}"),
        ("GET", f"tasks?workspace_id={path}"),
    ):
        url = URL(f"{shared_stack.url}/api/v1/{where}", encoded=True)
        async with shared_stack.http.request(method, url) as answer:
            assert answer.content_type == "application/json"
            assert answer.status < 500, (method, where)


async def test_times_beyond_all_years_leave_the_session_readable(shared_stack: Stack, session_id: str) -> None:
    """A page and the frame of the same row say the same, and the guard of an update takes what they say."""
    client = await shared_stack.connect()
    await client.subscribe(session_id, session_id)
    times = ("-infinity", "0044-03-15 BC", "10000-01-01", "9999-12-31 23:59:59.9999999", "infinity")
    for number, time in enumerate(times):
        await shared_stack.pool.execute(
            "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, created_at, updated_at)"
            " VALUES ($1, $2, 't', 'agent', $3::text::timestamptz, $3::text::timestamptz)",
            *(f"{session_id}-{number}", session_id, time),
        )
    await shared_stack.pool.execute("UPDATE task_sessions SET started_at = '10000-01-01' WHERE id = $1", session_id)
    await client.reached(await shared_stack.revision(session_id), session_id)
    path = f"/api/v1/task-sessions/{session_id}/messages"
    status, page = await get(shared_stack, path)
    assert status == 200
    told = {
        each["id"]: each["message"]
        for frame in client.told(session_id)
        for each in frame["operations"]
        if each["kind"] == "upsert"
    }
    assert told == {row["id"]: row for row in page["messages"]}
    assert {row["created_at"] for row in page["messages"]} == {EARLIEST_TEXT, LATEST_TEXT}
    status, listed = await get(shared_stack, "/api/v1/task-sessions?task_id=t")
    assert (status, session_id in ids(listed, "sessions")) == (200, True)
    for row in page["messages"]:
        edit = {"content": "new", "expected_updated_at": row["updated_at"]}
        status, found = await patch(shared_stack, f"{path}/{row['id']}", edit)
        assert status == 200, found


async def test_a_conflicts_revision_is_text(shared_stack: Stack, session_id: str) -> None:
    await fill(shared_stack, session_id, 1)
    path = f"/api/v1/task-sessions/{session_id}/messages/{session_id}-0"
    status, found = await patch(shared_stack, path, {"content": "x", "expected_revision": 10**6})
    assert (status, error_of(found)["code"]) == (409, "conflict")
    assert error_of(found)["details"]["revision"] == str(await shared_stack.revision(session_id))


async def fill_pages(stack: Stack, session_id: str, count: int) -> list[str]:
    """Messages of a mebibyte each: eight of them are more than a page takes."""
    names = [f"{session_id}-{number:02}" for number in range(count)]
    await stack.pool.execute(
        "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content, created_at)"
        " SELECT name, $1, 't', 'agent', repeat('x', 1048576), clock_timestamp() FROM unnest($2::text[]) name",
        *(session_id, names),
    )
    return names


async def test_a_session_of_many_pages_is_sent_as_they_come(shared_stack: Stack, session_id: str) -> None:
    names = await fill_pages(shared_stack, session_id, 20)
    url = f"{shared_stack.url}/api/v1/task-sessions/{session_id}/messages"
    async with shared_stack.http.get(url) as answer:
        assert (answer.status, answer.content_type) == (200, "application/json")
        assert answer.headers["Cache-Control"] == "no-store"
        body = await answer.json()
    assert list(body) == ["messages", "total", "has_more", "cursor"]
    assert (ids(body), body["total"], body["has_more"], body["cursor"]) == (names, 20, False, "")


async def test_a_list_that_cannot_be_finished_breaks_off(shared_stack: Stack, session_id: str) -> None:
    """Nothing is read ahead of a client that does not take it, and what is left out is never passed over in silence."""
    await fill_pages(shared_stack, session_id, 40)
    url = f"{shared_stack.url}/api/v1/task-sessions/{session_id}/messages"
    async with shared_stack.http.get(url) as answer:
        assert answer.status == 200
        await shared_stack.pool.execute("DELETE FROM task_sessions WHERE id = $1", session_id)
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()
    assert (await get(shared_stack, "/health"))[0] == 200
