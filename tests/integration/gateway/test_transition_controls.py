"""Transition controls: what they change, and that each answers only once this gateway has told its scopes."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from urllib.parse import urlsplit, urlunsplit

import pytest
import pytest_asyncio
from pydantic import ValidationError

from services.gateway.scopes import scope
from services.gateway.scopes.hub import Hub
from services.gateway.source.requests import Source
from shared.broker.receipts import ReceiptEntry
from shared.contracts.commands import Command, CommandResult
from shared.contracts.identity import Identity
from shared.settings import Settings
from tests.conftest import new_database
from tests.support.socket_client import Json
from tests.support.stack import Stack
from tests.support.waiting import eventually

_numbers = itertools.count()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def controlled(postgres_url: str, migrated_template: str, redis_url: str) -> AsyncIterator[Stack]:
    """All three services, with the controls."""
    address = urlunsplit(urlsplit(redis_url)._replace(path="/2"))
    with new_database(postgres_url, template=migrated_template) as url:
        async with Stack(url, address, test_controls="on") as stack:
            yield await stack.start_all()


@pytest.fixture
async def session_id(controlled: Stack) -> str:
    """A session with one message, called like it."""
    name = f"controls{next(_numbers)}"
    await controlled.session(name)
    await controlled.add(name, name, content="first")
    return name


def path(session_id: str, rest: str) -> str:
    """Of a control."""
    return f"/api/v1/test-controls/task-sessions/{session_id}/{rest}"


async def rows(stack: Stack, session_id: str, kind: str = "messages") -> list[Json]:
    """The session's rows, as first-party clients see them."""
    _, page = await stack.call("GET", f"/api/v1/task-sessions/{session_id}/{kind}?limit=50")
    found: list[Json] = page[kind]  # type: ignore[assignment] # a page's rows
    return found


async def test_an_answer_follows_the_frame(controlled: Stack, session_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the answer comes, clients of this gateway have been sent everything up to its revision, however quickly
    changes follow each other: nothing waits to be joined any more.
    """
    monkeypatch.setattr(scope, "FRESH_SECONDS", 0.0)
    client = await controlled.connect()
    await client.subscribe(session_id)
    for number in range(10):
        await asyncio.gather(*(controlled.add(session_id, f"{session_id}-{number}.{n}") for n in range(12)))
        status, done = await controlled.call(
            "PATCH", path(session_id, f"messages/{session_id}"), json={"content": f"text {number}"}
        )
        assert (status, int(str(done["revision"]))) == (200, await controlled.revision(session_id))
        await client.unsubscribe("none")
        assert client.told()[-1]["revision"] == done["revision"]


async def test_patching(controlled: Stack, session_id: str) -> None:
    target = path(session_id, f"messages/{session_id}")
    status, done = await controlled.call("PATCH", target, json={"content": "second", "metadata": {"a": 1}})
    assert (status, done["session_id"]) == (200, session_id)
    assert int(str(done["revision"])) == int(str(done["base_revision"])) + 1
    (row,) = await rows(controlled, session_id)
    assert (row["content"], row["metadata"]) == ("second", {"a": 1})
    status, again = await controlled.call("PATCH", target, json={"content": "second"})
    assert (status, again["base_revision"], again["revision"]) == (200, done["revision"], done["revision"])
    status, stale = await controlled.call("PATCH", target, json={"content": "third", "expected_revision": 0})
    assert (status, stale["error"]["code"]) == (409, "conflict")  # type: ignore[index] # a typed error


async def test_deleting(controlled: Stack, session_id: str) -> None:
    target = path(session_id, f"messages/{session_id}")
    status, done = await controlled.call("DELETE", target)
    assert (status, int(str(done["revision"]))) == (200, int(str(done["base_revision"])) + 1)
    assert await rows(controlled, session_id) == []
    status, again = await controlled.call("DELETE", target)
    assert (status, again["base_revision"], again["revision"]) == (200, done["revision"], done["revision"])


async def test_what_was_done_before_is_waited_for(
    controlled: Stack, session_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else completed the turn, and this gateway has not told it yet: the answer has to wait for that, as long
    as anybody follows the session.
    """
    turn, carried_out = f"{session_id}-turn", asyncio.Event()
    await controlled.call("POST", f"/api/v1/task-sessions/{session_id}/turns", json={"id": turn})
    client = await controlled.connect()
    await client.subscribe(session_id)
    held: list[tuple[Hub, ReceiptEntry]] = []
    receive, carry_out = Hub.receive, Source.command

    async def noted(source: Source, identity: Identity, command: Command) -> CommandResult:
        result = await carry_out(source, identity, command)
        carried_out.set()
        return result

    with monkeypatch.context() as patch:
        patch.setattr(Hub, "receive", lambda hub, entry: held.append((hub, entry)))
        _, done = await controlled.call("POST", f"/api/v1/task-sessions/{session_id}/turns/{turn}/complete", json={})
        patch.setattr(Source, "command", noted)
        completion = {"completed_at": "2026-03-01T12:00:00Z"}
        asking = asyncio.create_task(
            controlled.call("POST", path(session_id, f"turns/{turn}/complete"), json=completion)
        )
        await carried_out.wait()
        for _ in range(10):
            await client.unsubscribe("none")
        assert not asking.done()
        await eventually(lambda: _count(held), lambda count: count > 0)
    for hub, entry in held:
        receive(hub, entry)
    status, again = await asking
    assert (status, again["base_revision"], again["revision"]) == (200, done["revision"], done["revision"])
    await client.unsubscribe("none")
    assert client.told()[-1]["revision"] == done["revision"]


async def _count(held: Sequence[object]) -> int:
    return len(held)


async def test_controls_refuse_fields_that_there_are_not(controlled: Stack, session_id: str) -> None:
    completion = {"completed_at": "2026-03-01T12:00:00Z", "at": "now"}
    for method, target, body, name in (
        ("PATCH", path(session_id, f"messages/{session_id}"), {"contnt": "x"}, "contnt"),
        ("POST", path(session_id, "turns/turn/complete"), completion, "at"),
    ):
        status, found = await controlled.call(method, target, json=body)
        assert status == 400
        assert found["error"]["message"].startswith(f"{name}: no such field")  # type: ignore[index] # a typed error


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("2026-03-01T12:00:00Z", "2026-03-01T12:00:00Z"),
        ("2026-03-01T12:00:00.123456789Z", "2026-03-01T12:00:00.123456Z"),
        ("2026-03-01T12:00:00.999999999999+14:00", "2026-02-28T22:00:00.999999Z"),
        ("2026-03-01t00:30:00.1-23:59", "2026-03-02T00:29:00.1Z"),
        ("1969-12-31T23:59:59.9999999Z", "1969-12-31T23:59:59.999999Z"),
        ("0999-03-01T12:00:00z", "0999-03-01T12:00:00Z"),
    ],
)
async def test_completing_a_turn(controlled: Stack, session_id: str, given: str, kept: str) -> None:
    turn = f"{session_id}-turn"
    await controlled.call("POST", f"/api/v1/task-sessions/{session_id}/turns", json={"id": turn})
    target = path(session_id, f"turns/{turn}/complete")
    status, done = await controlled.call("POST", target, json={"completed_at": given})
    assert (status, int(str(done["revision"]))) == (200, await controlled.revision(session_id))
    (row,) = await rows(controlled, session_id, "turns")
    assert row["completed_at"] == kept


@pytest.mark.parametrize(
    "given",
    [
        None,
        7,
        "",
        "yesterday",
        "2026-03-01",
        "2026-03-01T12:00:00",
        "2026-03-01 12:00:00Z",
        "2026-13-01T12:00:00Z",
        "2026-03-01T25:00:00Z",
        "2026-03-01T12:00:00+99:00",
        "0001-01-01T00:00:00+14:00",
        "2026-W01-1T00:00:00Z",
        "\uff12026-03-01T12:00:00Z",
        "2026-03-01T12:00:00Z\x00",
    ],
)
async def test_times_that_are_none(controlled: Stack, session_id: str, given: object) -> None:
    status, body = await controlled.call("POST", path(session_id, "turns/turn/complete"), json={"completed_at": given})
    assert status == 400
    assert "completed_at" in body["error"]["message"]  # type: ignore[index] # a typed error


async def test_what_is_not_there(controlled: Stack, session_id: str) -> None:
    completion = {"completed_at": "2026-03-01T12:00:00Z"}
    for method, target, body in (
        ("PATCH", path(session_id, "messages/nowhere"), {"content": "x"}),
        ("PATCH", path("nowhere", "messages/nowhere"), {"content": "x"}),
        ("DELETE", path("nowhere", "messages/nowhere"), None),
        ("POST", path(session_id, "turns/nowhere/complete"), completion),
        ("POST", path("nowhere", "turns/nowhere/complete"), completion),
    ):
        status, found = await controlled.call(method, target, json=body)
        assert (status, found["error"]["code"]) == (404, "not_found"), target  # type: ignore[index] # a typed error


@pytest.mark.parametrize(
    "data", [b"{", b"[]", b'{"content":"\\ud800"}', b'{"content":"\xff"}', b'{"content":"a\\u0000b"}']
)
async def test_bodies_that_cannot_be(controlled: Stack, session_id: str, data: bytes) -> None:
    status, _ = await controlled.call("PATCH", path(session_id, f"messages/{session_id}"), data=data)
    assert status == 400
    (row,) = await rows(controlled, session_id)
    assert row["content"] == "first"


async def test_ids_that_cannot_be(controlled: Stack) -> None:
    for name in ("%00", "x" * 300, "a%0Ab"):
        for method, rest in (("PATCH", f"messages/{name}"), ("DELETE", f"messages/{name}")):
            status, _ = await controlled.call(method, path(name, rest), json={})
            assert status == 400, name


async def test_a_receipt_that_does_not_come(database_url: str, redis_url: str) -> None:
    """The change is there, and the answer says so: asking again is answered at once."""
    async with Stack(database_url, redis_url, test_controls="on", request_timeout=1.0) as stack:
        await stack.start_all()
        await stack.session("s")
        await stack.add("s", "m")
        await stack.pool.execute("ALTER PUBLICATION conversation_receipts RENAME TO elsewhere")
        status, failed = await stack.call("DELETE", path("s", "messages/m"))
        error = failed["error"]
        assert isinstance(error, dict)
        assert (status, error["code"], error["retryable"]) == (503, "unavailable", True)
        assert error["details"]["committed"] is True
        assert error["details"]["revision"] == str(await stack.revision("s"))
        status, again = await stack.call("DELETE", path("s", "messages/m"))
        assert (status, again["revision"]) == (200, error["details"]["revision"])


async def test_controls_are_off_by_default(shared_stack: Stack) -> None:
    await shared_stack.session("uncontrolled")
    await shared_stack.add("uncontrolled", "uncontrolled")
    for method, rest in (
        ("PATCH", "messages/uncontrolled"),
        ("DELETE", "messages/uncontrolled"),
        ("POST", "turns/turn/complete"),
    ):
        assert (await shared_stack.call(method, path("uncontrolled", rest), json={}))[0] == 404
    assert len(await rows(shared_stack, "uncontrolled")) == 1


def test_authentication_refuses_them_unless_they_are_meant() -> None:
    assert Settings().test_controls == "off"
    assert Settings(test_controls="on").test_controls == "on"
    assert Settings(auth="enabled").test_controls == "off"
    assert Settings(auth="enabled", test_controls="even-with-authentication").auth == "enabled"
    with pytest.raises(ValidationError, match="even-with-authentication"):
        Settings(auth="enabled", test_controls="on")
    with pytest.raises(ValidationError):
        Settings.model_validate({"test_controls": "yes"})


async def test_waiting_ends_with_the_one_who_waits(controlled: Stack, session_id: str) -> None:
    """Controls at the same time, of one session: each waits for its own revision."""
    answers = await asyncio.gather(
        *(
            controlled.call("PATCH", path(session_id, f"messages/{name}"), json={"content": "done"})
            for name in [session_id]
        ),
        *(controlled.call("DELETE", path(session_id, f"messages/{session_id}-{number}")) for number in range(8)),
    )
    assert [status for status, _ in answers] == [200] * 9
