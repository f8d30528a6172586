"""Content of every kind is refused when it is written, or carried unchanged to all who read it; none reaches a log."""

import asyncio
import io
import itertools
import json
import logging
from typing import Any
from urllib.parse import urlsplit

import pytest

from services.gateway.http.plugin_conversation import BINDING_HEADER
from tests.integration.plugin_conversation.plugins import Plugin
from tests.support.stack import Stack

MEGABYTE = 1 << 20

_numbers = itertools.count()


async def write(stack: Stack, session_id: str, body: bytes) -> int:
    """Adds a message with this body; the status."""
    url = f"{stack.url}/api/v1/task-sessions/{session_id}/messages"
    async with stack.http.post(url, data=io.BytesIO(body), headers={"Content-Type": "application/json"}) as answer:
        found = await answer.json()
        assert answer.status < 500, found
        return answer.status


@pytest.mark.parametrize(
    "content",
    [
        "\u0645\u0631\u062d\u0628\u0627 \u202ertl\u202c \u200f",
        "\U0001f600\ufffd\ufeff\u2028\u2029\x7f\x1b[31m",
        "x" * MEGABYTE,
        "line\n" * (MEGABYTE // 5) + "end",
        "\u00e9" * MEGABYTE,
        "<script>alert(1)</script>&amp;\"'\\",
        "\\u0000 \\ud800 as text",
        "a\r\nb\tc\x01\x08",
        "<kandev-",
    ],
    ids=lambda content: repr(content[:8]),
)
async def test_what_is_taken_is_carried_unchanged(shared_stack: Stack, plugin: Plugin, content: str) -> None:
    session_id = f"content{next(_numbers)}"
    await shared_stack.session(session_id)
    body = json.dumps({"id": session_id, "author_type": "user", "content": content}).encode()
    assert await write(shared_stack, session_id, body) == 200
    _, core = await shared_stack.call("GET", f"/api/v1/task-sessions/{session_id}/messages?limit=5")
    rows: Any = core["messages"]
    page = await plugin.read(session_id)
    assert [row["content"] for row in rows] == [content]
    expected = "" if content == "<kandev-" else content
    assert [row["content"] for row in page.body["messages"]] == [expected]


@pytest.mark.parametrize(
    "body",
    [
        b'{"id":"ID","author_type":"user","content":"a\\u0000b"}',
        b'{"id":"ID","author_type":"user","content":"a\\ud800b"}',
        b'{"id":"ID","author_type":"user","content":"a\\udc00\\ud800"}',
        b'{"id":"ID","author_type":"user","content":"a\xff"}',
        b'{"id":"ID","author_type":"user","content":"a\xed\xa0\x80"}',
        b'{"id":"ID","author_type":"user","content":"a\x00"}',
        b'{"id":"ID\\u0000","author_type":"user","content":"a"}',
        b'{"id":"ID","author_type":"user","content":"a","metadata":{"sender_task_id":"\\ud800"}}',
        b'{"id":"ID","author_type":"user","content":["a"]}',
        b'{"id":"ID","author_type":"user","content":"a"',
    ],
)
async def test_what_cannot_be_carried_is_refused(shared_stack: Stack, plugin: Plugin, body: bytes) -> None:
    session_id = f"refused{next(_numbers)}"
    await shared_stack.session(session_id)
    assert await write(shared_stack, session_id, body.replace(b"ID", session_id.encode())) == 400
    assert (await plugin.read(session_id)).body["messages"] == []


@pytest.mark.parametrize(
    "query", [b"task_id=\xff", b"task_id=%ff", b"task_id=%ed%a0%80", b"cursor=\xff", b"limit=\xff"]
)
async def test_a_query_that_is_no_text(shared_stack: Stack, plugin: Plugin, query: bytes) -> None:
    """A client library would not send it."""
    session_id = f"query{next(_numbers)}"
    await shared_stack.session(session_id)
    address = urlsplit(shared_stack.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    path = f"/api/plugins/reader/conversation/v2/task-sessions/{session_id}/messages?"
    lines = (f"{BINDING_HEADER}: {plugin.binding}", f"Host: {address.netloc}", "Connection: close", "", "")
    writer.write(b"GET " + path.encode() + query + b" HTTP/1.1\r\n" + "\r\n".join(lines).encode())
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    assert answer.split(b" ")[1] == b"400"


SECRET = "planted-5f1c"


@pytest.mark.parametrize(
    "query",
    [
        {"limit": SECRET},
        {"sort": SECRET},
        {"task_id": SECRET},
        {"task_id": SECRET + "\x00"},
        {"author_type": SECRET},
        {"cursor": SECRET},
        {"expected_revision": SECRET},
        {SECRET: SECRET},
    ],
)
async def test_nothing_that_was_sent_reaches_a_log(
    shared_stack: Stack, plugin: Plugin, caplog: pytest.LogCaptureFixture, query: dict[str, str]
) -> None:
    caplog.set_level(logging.DEBUG)
    session_id = "secretive"
    if await shared_stack.pool.fetchval("SELECT count(*) FROM task_sessions WHERE id = $1", session_id) == 0:
        await shared_stack.session(session_id)
        await shared_stack.add(session_id, "secretive", content=f"<kandev-system>{SECRET}</kandev-system> {SECRET}")
    for session in (session_id, SECRET):
        for what in ("messages", "turns", "revision"):
            answer = await plugin.read(session, what, **query)
            assert answer.status < 500
            assert SECRET not in json.dumps(answer.body) or answer.status == 200
    for binding in (SECRET, f"{SECRET}.{SECRET}"):
        refused = await Plugin(shared_stack, "reader", binding).read(session_id)
        assert SECRET not in json.dumps(refused.body)
    assert (await Plugin(shared_stack, SECRET).get("/binding")).status == 404
    assert SECRET not in caplog.text
    assert plugin.binding
    assert plugin.binding not in caplog.text
