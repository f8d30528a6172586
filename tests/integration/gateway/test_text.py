"""Text of every kind on its way in and out: what is no Unicode, what grows sixfold as JSON, what is very long."""

import asyncio
from io import BytesIO
from itertools import count
from typing import Any

import orjson
import pytest

from services.gateway.websocket.connection import MAX_MESSAGE_BYTES
from shared.contracts.reads import MAX_PAGE_BYTES
from tests.support.socket_client import SocketClient
from tests.support.stack import Stack

SURROGATE = r"holds a lone surrogate (\ud83d), which is no Unicode text"

_numbers = count()


@pytest.fixture
async def session_id(shared_stack: Stack) -> str:
    """A session of task `t`."""
    name = f"text{next(_numbers)}"
    await shared_stack.session(name)
    return name


@pytest.fixture
async def client(shared_stack: Stack) -> SocketClient:
    """A connection."""
    return await shared_stack.connect()


async def say(stack: Stack, session_id: str, text: str, repeated: int, rows: int) -> None:
    """Adds messages by SQL, a second apart."""
    await stack.pool.execute(
        "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content, created_at) "
        "SELECT $1 || '-' || n, $1, 't', 'agent', repeat($2, $3), '2026-01-01'::timestamptz + n * interval '1 s' "
        "FROM generate_series(0, $4::int - 1) n",
        *(session_id, text, repeated, rows),
    )


async def page_of(stack: Stack, session_id: str, query: str) -> bytes:
    """A page's body."""
    url = f"{stack.url}/api/v1/task-sessions/{session_id}/messages?{query}"
    async with stack.http.get(url) as answer:
        body = await answer.read()
        assert answer.status == 200, body
        return body


async def test_half_an_emoji_is_refused_by_its_field(shared_stack: Stack, session_id: str) -> None:
    body = rb'{"id":"m","author_type":"user","content":"cut \ud83d"}'
    where = f"/api/v1/task-sessions/{session_id}/messages"
    status, answer = await shared_stack.call("POST", where, data=body)
    assert (status, answer["error"]) == (
        400,
        {"code": "invalid_query", "message": f"content {SURROGATE}", "retryable": False, "details": {}},
    )


@pytest.mark.parametrize(
    ("request_id", "echoed"),
    [(b'"r1"', {"id": "r1", "action": "message.add"}), (rb'"\ud83d"', {"action": "message.add"})],
)
async def test_half_an_emoji_on_the_socket_is_refused_with_its_request(
    client: SocketClient, request_id: bytes, echoed: dict[str, Any]
) -> None:
    message = rb'{"id":%b,"type":"request","action":"message.add","payload":{"content":"cut \ud83d"}}' % request_id
    await client.socket.send_str(message.decode())
    await client.until(lambda: any(found["type"] == "error" for found in client.messages))
    [error] = [found for found in client.messages if found["type"] == "error"]
    place = "id" if b"ud83d" in request_id else "payload.content"
    payload = {"code": "BAD_REQUEST", "message": f"{place} {SURROGATE}"}
    assert error == {"type": "error", "payload": payload, **echoed}


async def test_a_line_of_a_mebibyte_is_sent_on_the_socket_whatever_its_characters(
    client: SocketClient, session_id: str
) -> None:
    text = "\x01" * (1 << 20)
    made = await client.request("message.add", {"session_id": session_id, "task_id": "t", "content": text})
    assert made["type"] == "response", str(made)[:200]
    assert made["payload"]["content"] == text


async def test_no_more_is_read_than_can_be_answered(client: SocketClient, session_id: str) -> None:
    """Requests of many times what a connection may hold: all are answered, in their own time."""
    text = "x" * (MAX_MESSAGE_BYTES // 3)
    payload = {"session_id": session_id, "task_id": "t", "content": text}
    made = await asyncio.gather(
        *(client.request("message.add", {**payload, "client_message_id": str(number)}) for number in range(12))
    )
    assert [found["type"] for found in made] == ["response"] * 12


async def test_a_page_is_as_large_as_it_may_be_as_it_is_sent(shared_stack: Stack, session_id: str) -> None:
    """Nine rows of a million control characters: each page is at most the cap and one row."""
    await say(shared_stack, session_id, "\x01", 1_000_000, 9)
    row = 6 * 1_000_000 + 1000
    seen: list[str] = []
    query = "limit=20"
    while True:
        body = await page_of(shared_stack, session_id, query)
        assert len(body) <= MAX_PAGE_BYTES + row
        page = orjson.loads(body)
        seen += [found["id"] for found in page["messages"]]
        if not page["has_more"]:
            break
        query = f"limit=20&after={page['cursor']}"
    assert seen == [f"{session_id}-{number}" for number in range(9)]


@pytest.mark.parametrize("text", ["\x01", "<kandev-system>\x01</kandev-system>"])
async def test_the_longest_row_is_read_by_four_at_once_and_by_others_beside(
    shared_stack: Stack, session_id: str, text: str
) -> None:
    await say(shared_stack, session_id, text, (15 << 20) // len(text), 1)
    beside = f"{session_id}-beside"
    await shared_stack.session(beside)
    await say(shared_stack, beside, "x", 10, 1)
    queries = [f"limit={limit}" for limit in range(1, 5)]
    pages = await asyncio.gather(
        *(page_of(shared_stack, session_id, query) for query in queries), page_of(shared_stack, beside, "limit=1")
    )
    assert [len(orjson.loads(body)["messages"]) for body in pages] == [1] * 5


async def test_a_body_of_many_small_values_is_refused_in_time(shared_stack: Stack, session_id: str) -> None:
    body = b'{"id":"m","author_type":"user","metadata":{"a":[' + b"[]," * (2 << 20) + b"[]]}}"
    where = f"/api/v1/task-sessions/{session_id}/messages"
    status, answer = await shared_stack.call("POST", where, data=BytesIO(body))
    assert status == 400
    assert "larger than" in str(answer)
