"""The actions `message.list`, `message.search` and `message.add`."""

import itertools

import pytest

from services.gateway.websocket.message_actions import DEFAULT_HITS, MOST_HITS
from tests.integration.identity.people import People
from tests.support.socket_client import Json, SocketClient
from tests.support.stack import Stack

_numbers = itertools.count()

SEPARATED = "one\u2028two \u202eright to left\u202c"


@pytest.fixture
async def session_id(shared_stack: Stack) -> str:
    """A session of task `t`."""
    name = f"action{next(_numbers)}"
    await shared_stack.session(name)
    return name


@pytest.fixture
async def client(shared_stack: Stack) -> SocketClient:
    """A connection."""
    return await shared_stack.connect()


async def asked(client: SocketClient, action: str, payload: Json) -> Json:
    """The payload of a reply that is no error."""
    reply = await client.request(action, payload)
    assert reply["type"] == "response", reply
    found: Json = reply["payload"]
    return found


async def refused(client: SocketClient, action: str, payload: Json) -> tuple[str, str]:
    """Code and sentence of a reply that is an error."""
    reply = await client.request(action, payload)
    assert reply["type"] == "error", reply
    return reply["payload"]["code"], reply["payload"]["message"]


async def fill(stack: Stack, session_id: str, count: int) -> list[str]:
    """Adds messages by turns of user and agent; their ids in order."""
    names = [f"{session_id}-{number}" for number in range(count)]
    for number, name in enumerate(names):
        await stack.add(session_id, name, author="agent" if number % 2 else "user", content=f"text {number}")
    return names


async def test_a_list_is_the_page_that_http_answers(shared_stack: Stack, session_id: str, client: SocketClient) -> None:
    names = await fill(shared_stack, session_id, 12)
    path = f"/api/v1/task-sessions/{session_id}/messages"
    for payload, query in (
        ({"limit": 3}, "limit=3"),
        ({"sort": " DESC ", "limit": 5}, "limit=5&sort=desc"),
        ({"after": names[1]}, f"after={names[1]}"),
        ({"before": names[6], "limit": 2, "sort": "desc"}, f"before={names[6]}&limit=2&sort=desc"),
        ({"limit": 500}, "limit=500"),
        ({"limit": -1, "before": None, "sort": None}, "sort=asc"),
        ({"limit": 2**63}, "limit=100"),
    ):
        page = await asked(client, "message.list", {"session_id": session_id, **payload})
        assert (200, page) == await shared_stack.call("GET", f"{path}?{query}"), payload
        assert all(("prompt_index" in row) is (row["author_type"] == "user") for row in page["messages"])


async def test_a_list_without_paging_is_everything(shared_stack: Stack, session_id: str, client: SocketClient) -> None:
    names = await fill(shared_stack, session_id, 3)
    page = await asked(client, "message.list", {"session_id": session_id})
    assert [row["id"] for row in page["messages"]] == names
    assert (page["total"], page["has_more"]) == (3, False)


async def test_a_list_ends_by_its_bytes(shared_stack: Stack, session_id: str, client: SocketClient) -> None:
    for number in range(3):
        await shared_stack.add(session_id, f"{session_id}-{number}", content="x" * (5 << 20))
    found: list[str] = []
    page: Json = {"has_more": True, "cursor": ""}
    while page["has_more"]:
        page = await asked(client, "message.list", {"session_id": session_id, "after": page["cursor"]})
        assert page["total"] == 1
        found += [row["id"] for row in page["messages"]]
    assert found == [f"{session_id}-{number}" for number in range(3)]


@pytest.mark.parametrize(
    ("payload", "code", "message"),
    [
        ({}, "VALIDATION_ERROR", "session_id is required"),
        ({"session_id": " "}, "VALIDATION_ERROR", "session_id is required"),
        ({"session_id": None}, "VALIDATION_ERROR", "session_id is required"),
        (
            {"session_id": "s", "before": "a", "after": "b"},
            "VALIDATION_ERROR",
            "only one of before or after can be set",
        ),
        ({"session_id": "s", "sort": "sideways"}, "VALIDATION_ERROR", "sort must be asc or desc"),
        ({"session_id": "nowhere"}, "NOT_FOUND", "not found"),
        ({"session_id": "a\x00b"}, "NOT_FOUND", "not found"),
        ({"session_id": "x" * 300}, "NOT_FOUND", "not found"),
    ],
)
async def test_lists_that_cannot_be(client: SocketClient, payload: Json, code: str, message: str) -> None:
    assert await refused(client, "message.list", payload) == (code, message)


@pytest.mark.parametrize(
    ("action", "payload"),
    [
        ("message.list", {"session_id": 7}),
        ("message.list", {"session_id": "s", "limit": "3"}),
        ("message.list", {"session_id": "s", "limit": True}),
        ("message.list", {"session_id": "s", "limit": 1.5}),
        ("message.search", {"session_id": "s", "query": ["x"]}),
        ("message.add", {"session_id": "s", "task_id": "t", "content": {}}),
        ("message.add", {"session_id": "s", "task_id": "t", "content": "x", "plan_mode": "yes"}),
        ("message.add", {"session_id": "s", "task_id": "t", "content": "x", "attachments": "x"}),
        ("message.add", {"session_id": "s", "task_id": "t", "content": "x", "attachments": ["x"]}),
    ],
)
async def test_fields_are_of_their_json_type(client: SocketClient, action: str, payload: Json) -> None:
    code, message = await refused(client, action, payload)
    assert code == "BAD_REQUEST"
    assert message.split(":")[0].split(".")[0] in payload


@pytest.mark.parametrize("position", ["before", "after"])
async def test_a_cursor_of_nowhere(session_id: str, client: SocketClient, position: str) -> None:
    for row in ("nowhere", "a\x00b", "x" * 5000):
        code, _ = await refused(client, "message.list", {"session_id": session_id, position: row})
        assert code == "VALIDATION_ERROR"


async def test_search(shared_stack: Stack, session_id: str, client: SocketClient) -> None:
    await shared_stack.add(session_id, f"{session_id}-a", content="needle 100% of_it")
    await shared_stack.add(session_id, f"{session_id}-b", author="agent", content="NEEDLE")
    await shared_stack.add(session_id, f"{session_id}-c", content="<kandev-system>needle</kandev-system>hay")
    found = await asked(client, "message.search", {"session_id": session_id, "query": "needle"})
    assert [hit["id"] for hit in found["hits"]] == [f"{session_id}-b", f"{session_id}-a"]
    assert found["total"] == 2
    assert set(found["hits"][0]) == {"id", "author_type", "type", "snippet", "created_at"}
    assert found["hits"][1]["snippet"] == "needle 100% of_it"
    for query, total in (("100% of_", 1), ("%", 1), ("o_it", 0), ("", 0), ("  \n", 0), ("a\x00b", 0)):
        found = await asked(client, "message.search", {"session_id": session_id, "query": query})
        assert found["total"] == len(found["hits"]) == total, query
    found = await asked(client, "message.search", {"session_id": session_id, "query": "needle", "limit": 1})
    assert found["total"] == 1
    found = await asked(client, "message.search", {"session_id": session_id, "query": "needle", "limit": 9999})
    assert found["total"] == 2


async def test_searches_that_cannot_be(session_id: str, client: SocketClient) -> None:
    assert await refused(client, "message.search", {"query": "x"}) == ("VALIDATION_ERROR", "session_id is required")
    unknown = {"session_id": "nowhere", "query": "x"}
    assert await refused(client, "message.search", unknown) == ("NOT_FOUND", "not found")
    long = {"session_id": session_id, "query": "x" * 1001}
    assert await refused(client, "message.search", long) == ("VALIDATION_ERROR", "query may have 1000 characters")


async def test_adding(shared_stack: Stack, session_id: str, client: SocketClient) -> None:
    payload = {
        "task_id": "t",
        "session_id": session_id,
        "client_message_id": "c-1",
        "content": "first",
        "model": "m",
        "plan_mode": True,
        "attachments": [{"type": "image", "data": "x"}],
    }
    made = await asked(client, "message.add", payload)
    assert (made["content"], made["author_type"], made["prompt_index"]) == ("first", "user", 1)
    assert made["author_id"] == "default-user"
    assert made["metadata"] == {"model": "m", "plan_mode": True, "attachments": [{"type": "image", "data": "x"}]}
    _, page = await shared_stack.call("GET", f"/api/v1/task-sessions/{session_id}/messages?limit=5")
    assert page["messages"] == [made]


async def test_a_repeated_add_finds_what_it_made(shared_stack: Stack, session_id: str, client: SocketClient) -> None:
    payload = {"task_id": "t", "session_id": session_id, "client_message_id": "c-1", "content": "first"}
    made = await asked(client, "message.add", payload)
    assert await asked(client, "message.add", payload) == made
    assert await asked(client, "message.add", {**payload, "content": "other"}) == made
    assert await asked(client, "message.add", {**payload, "message_id": "another"}) == made
    change = {"content": "edited", "expected_updated_at": made["updated_at"]}
    path = f"/api/v1/task-sessions/{session_id}/messages/{made['id']}"
    assert (await shared_stack.call("PATCH", path, json=change))[0] == 200
    again = await asked(client, "message.add", payload)
    assert (again["id"], again["content"], again["prompt_index"]) == (made["id"], "edited", 1)
    used = ("VALIDATION_ERROR", "client_message_id is already used")
    assert await refused(client, "message.add", {**payload, "task_id": "u"}) == used
    assert await refused(client, "message.add", {**payload, "author_id": "someone"}) == used
    other = f"{session_id}-other"
    await shared_stack.session(other)
    elsewhere = await asked(client, "message.add", {**payload, "session_id": other})
    assert elsewhere["id"] != made["id"]


async def test_a_message_id_of_another_message(shared_stack: Stack, session_id: str, client: SocketClient) -> None:
    other = f"{session_id}-other"
    await shared_stack.session(other)
    await shared_stack.add(other, f"{session_id}-taken")
    payload = {"task_id": "t", "session_id": session_id, "content": "x"}
    used = ("VALIDATION_ERROR", "message_id is already used")
    assert await refused(client, "message.add", {**payload, "message_id": f"{session_id}-taken"}) == used
    named = await asked(client, "message.add", {**payload, "message_id": f"{session_id}-named"})
    assert named["id"] == f"{session_id}-named"
    assert await asked(client, "message.add", {**payload, "message_id": f"{session_id}-named"}) == named
    assert (await asked(client, "message.add", payload))["id"] != (await asked(client, "message.add", payload))["id"]


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        ({"task_id": "t", "content": "x"}, "VALIDATION_ERROR"),
        ({"session_id": "{}", "content": "x"}, "VALIDATION_ERROR"),
        ({"task_id": "t", "session_id": "{}"}, "VALIDATION_ERROR"),
        ({"task_id": "t", "session_id": "{}", "content": " "}, "VALIDATION_ERROR"),
        ({"task_id": "t", "session_id": "{}", "content": "a\x00b"}, "VALIDATION_ERROR"),
        ({"task_id": "t", "session_id": "{}", "content": "x", "author_id": "a\x00"}, "VALIDATION_ERROR"),
        ({"task_id": "t", "session_id": "{}", "content": "x", "message_id": "a\nb"}, "VALIDATION_ERROR"),
        ({"task_id": "t", "session_id": "{}", "content": "x", "message_id": "x" * 300}, "VALIDATION_ERROR"),
        ({"task_id": "a\x00b", "session_id": "{}", "content": "x"}, "VALIDATION_ERROR"),
        ({"task_id": "nowhere", "session_id": "{}", "content": "x"}, "NOT_FOUND"),
        ({"task_id": "t", "session_id": "nowhere", "content": "x"}, "NOT_FOUND"),
    ],
)
async def test_adds_that_cannot_be(
    shared_stack: Stack, session_id: str, client: SocketClient, payload: Json, code: str
) -> None:
    named = {name: session_id if value == "{}" else value for name, value in payload.items()}
    assert (await refused(client, "message.add", named))[0] == code
    assert (await asked(client, "message.list", {"session_id": session_id}))["total"] == 0


@pytest.mark.parametrize("content", [SEPARATED, "مرحبا שלום", "x" * 900_000, "\x01\x7f\ufffd\U0010ffff", '{}\n"\\'])
async def test_content_is_carried_unchanged(session_id: str, client: SocketClient, content: str) -> None:
    payload = {"task_id": "t", "session_id": session_id, "client_message_id": content[:50], "content": content}
    assert (await asked(client, "message.add", payload))["content"] == content
    page = await asked(client, "message.list", {"session_id": session_id})
    assert [row["content"] for row in page["messages"]] == [content]


@pytest.mark.parametrize("field", [b'"content":"\\ud800"', b'"content":"\xff"', b'"client_message_id":"\\udc00"'])
@pytest.mark.parametrize("action", ["message.add", "message.list", "message.search", "session.subscribe"])
async def test_text_that_is_none(shared_stack: Stack, session_id: str, action: str, field: bytes) -> None:
    client = await shared_stack.connect()
    payload = b'{"task_id":"t","session_id":"%b",%b}' % (session_id.encode(), field)
    await client.socket.send_bytes(
        b'{"id":"x","type":"request","action":"%b","payload":%b}' % (action.encode(), payload)
    )
    await client.until(lambda: bool(client.messages))
    assert client.messages[0]["type"] == "error"
    assert client.messages[0]["payload"]["code"] == "BAD_REQUEST"
    assert (await asked(client, "message.list", {"session_id": session_id}))["total"] == 0


@pytest.mark.parametrize(
    "field", ["consumer_kind", "consumer_id", "snapshot_token", "resume_token", "event_watermark", "replace_cursor"]
)
@pytest.mark.parametrize(
    "action", ["message.list", "message.search", "message.add", "session.subscribe", "session.focus"]
)
async def test_the_ordered_stream_is_refused_by_name(
    session_id: str, client: SocketClient, action: str, field: str
) -> None:
    payload = {"session_id": session_id, "task_id": "t", "content": "x", "query": "x", field: None}
    reply = await client.request(action, payload)
    assert (reply["type"], reply["payload"]["code"]) == ("error", "BAD_REQUEST")
    assert reply["payload"]["message"].startswith("unsupported protocol: ")
    assert reply["payload"]["details"] == {"reason": "unsupported_protocol", "fields": [field]}
    assert (await asked(client, "message.list", {"session_id": session_id}))["total"] == 0


async def test_what_is_anothers_answers_like_what_is_not_there(accounts_stack: Stack, people: People) -> None:
    owner, stranger = await people.add(), await people.add()
    name = f"own{next(_numbers)}"
    await accounts_stack.pool.execute("INSERT INTO workspaces (id, owner_id) VALUES ($1, $2)", name, owner.id)
    await accounts_stack.pool.execute("INSERT INTO tasks (id, workspace_id) VALUES ($1, $1)", name)
    await accounts_stack.session(name, name)
    await accounts_stack.add(name, name, content="needle", task_id=name)
    own = await accounts_stack.connect(headers=owner.bearer)
    other = await accounts_stack.connect(headers=stranger.bearer)
    for action, code in (
        ("message.list", "NOT_FOUND"),
        ("message.search", "NOT_FOUND"),
        ("message.add", "NOT_FOUND"),
        ("session.subscribe", "FORBIDDEN"),
        ("session.focus", "NOT_FOUND"),
        ("session.unfocus", "NOT_FOUND"),
        ("session.unsubscribe", "NOT_FOUND"),
    ):
        more = {"query": "needle", "content": "x", "client_message_id": "c"}
        of_another = await refused(other, action, {"session_id": name, "task_id": name, **more})
        of_nobody = await refused(other, action, {"session_id": "nowhere", "task_id": name, **more})
        assert of_another == of_nobody == (code, "not found"), action
        await asked(own, action, {"session_id": name, "task_id": name, **more})
    assert (await asked(own, "message.add", {"session_id": name, "task_id": name, "content": "y"}))[
        "author_id"
    ] == owner.id


async def test_a_search_finds_at_most_so_many(shared_stack: Stack, session_id: str, client: SocketClient) -> None:
    """Whatever limit is given: more than the most counts as the most."""
    await shared_stack.pool.execute(
        "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content)"
        " SELECT $1 || n, $1, 't', 'agent', 'needle' FROM generate_series(1, $2) n",
        session_id,
        MOST_HITS + 1,
    )
    for limit, found in ((0, DEFAULT_HITS), (MOST_HITS + 1, MOST_HITS), (10**9, MOST_HITS)):
        payload = {"session_id": session_id, "query": "needle", "limit": limit}
        assert (await asked(client, "message.search", payload))["total"] == found, limit
