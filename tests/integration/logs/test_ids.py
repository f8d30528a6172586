"""What a client asks is named in the log, from the edge to whoever answers, by ids that are nobody's words."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.logs import LOG
from tests.support.stack import Stack
from tests.support.waiting import eventually


@pytest.fixture
async def stack(database_url: str, redis_url: str) -> AsyncIterator[Stack]:
    """All three services, ready; a test may do with them what it likes."""
    async with Stack(database_url, redis_url) as stack:
        yield await stack.start_all()


def lines_since(place: int) -> list[dict[str, Any]]:  # any: fields of log lines
    """What was logged behind a place."""
    return [json.loads(line) for line in LOG.since(place).splitlines()]


async def test_an_answer_tells_the_id_that_its_lines_hold_at_the_reader(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stack.session("s")

    def fail(*_: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr("services.reader.answers.page_of", fail)
    begun = LOG.end
    url = f"{stack.url}/api/v1/task-sessions/s/turns"
    async with stack.http.get(url, headers={"X-Request-Id": "planted"}) as answer:
        assert answer.status == 503
        told = answer.headers["X-Request-Id"]
    assert told != "planted"
    named = [line for line in lines_since(begun) if line.get("request", "").startswith(f"{told}-")]
    assert {line["logger"] for line in named} == {"services.reader.answers"}


async def test_every_answer_has_an_id_of_its_own(stack: Stack) -> None:
    found = set()
    for path in ("/health", "/nowhere", "/api/v1/task-sessions/nobody/messages?limit=1", "/ws"):
        async with stack.http.get(f"{stack.url}{path}") as answer:
            found.add(answer.headers["X-Request-Id"])
    assert len(found) == 4


async def test_lines_of_a_connection_hold_the_id_of_its_upgrade(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = LOG.end
    client = await stack.connect()

    async def fail(*_: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr("services.gateway.source.requests.Source.search", fail)
    payload = {"session_id": "s", "query": "planted"}
    reply = await client.request("message.search", payload)
    assert reply["type"] == "error"

    async def told() -> list[dict[str, Any]]:
        return [line for line in lines_since(begun) if "connection" in line]

    found = await eventually(told)
    assert {line["connection"] for line in found} == {client.socket._response.headers["X-Request-Id"]}
    assert all(line["request"] != line["connection"] for line in found)
