"""Two users, two workspaces: every first-party route answers for what is the other's as for what does not exist."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from services.gateway.http.application import ROUTES
from services.gateway.http.routes import Route
from tests.integration.identity.people import PASSWORD, People, Person
from tests.support.stack import Stack

_numbers = itertools.count()


@dataclass(frozen=True)
class Room:
    """The ids of one workspace and of what is in it."""

    workspace_id: str
    task_id: str
    session_id: str
    message_id: str
    turn_id: str

    @classmethod
    def named(cls, name: str) -> "Room":
        """Ids of one length, whatever the name."""
        return cls(*(f"{name}-{part}" for part in ("workspace", "task", "session", "message", "turn")))


async def fill(stack: Stack, room: Room, owner: Person) -> None:
    """Makes a room with a prompt and a turn in it."""
    await stack.pool.execute("INSERT INTO workspaces (id, owner_id) VALUES ($1, $2)", room.workspace_id, owner.id)
    await stack.pool.execute("INSERT INTO tasks (id, workspace_id) VALUES ($1, $2)", room.task_id, room.workspace_id)
    await stack.session(room.session_id, room.task_id)
    await stack.add(room.session_id, room.message_id, content="a secret", task_id=room.task_id)
    await stack.pool.execute(
        "INSERT INTO task_session_turns (id, task_session_id, task_id) VALUES ($1, $2, $3)",
        room.turn_id,
        room.session_id,
        room.task_id,
    )


def requests(room: Room, person: Person) -> Iterator[tuple[str, str, object]]:
    """Method, path and body of every kind of request that names something of a room."""
    workspace, task, session = (
        f"/api/v1/workspaces/{room.workspace_id}",
        f"/api/v1/tasks/{room.task_id}",
        f"/api/v1/task-sessions/{room.session_id}",
    )
    message = f"{session}/messages/{room.message_id}"
    new = f"new{next(_numbers)}"
    for kind in ("task-sessions", "agent-sessions"):
        for query in (
            "",
            "?limit=1",
            f"?around={room.message_id}",
            f"?after={room.message_id}",
            "?task_id=" + room.task_id,
        ):
            yield "GET", f"/api/v1/{kind}/{room.session_id}/messages{query}", None
    yield "GET", f"{session}/turns", None
    yield "GET", f"{session}/turns?after={room.turn_id}&limit=1", None
    yield "GET", f"/api/v1/tasks?workspace_id={room.workspace_id}", None
    yield "GET", f"/api/v1/task-sessions?task_id={room.task_id}", None
    yield "GET", f"{workspace}/members", None
    yield "PUT", f"{workspace}/members/{person.id}", None
    yield "DELETE", f"{workspace}/members/{person.id}", None
    yield "POST", "/api/v1/tasks", {"id": new, "workspace_id": room.workspace_id, "title": ""}
    yield "POST", "/api/v1/task-sessions", {"id": new, "task_id": room.task_id}
    yield "POST", f"{session}/messages", {"id": new, "author_type": "user"}
    yield "PATCH", message, {"content": "x", "expected_revision": 1}
    yield "POST", f"{message}/append", {"offset": 0, "text": "x"}
    yield "DELETE", message, None
    yield "POST", f"{session}/turns", {"id": new}
    yield "POST", f"{session}/turns/{room.turn_id}/complete", {}
    yield "DELETE", session, None
    yield "DELETE", task, None


async def test_what_is_anothers_is_as_if_it_were_not_there(guarded: Stack, people: People) -> None:
    """Same status, same body. Only a new thing's own id tells whether it is taken: ids are the clients' to choose."""
    owner, other = await people.add(), await people.add()
    number = next(_numbers)
    theirs, nothing = Room.named(f"theirs{number}"), Room.named(f"absent{number}")
    await fill(guarded, theirs, owner)
    for (method, path, body), (_, other_path, other_body) in zip(
        requests(theirs, other), requests(nothing, other), strict=True
    ):
        found = await guarded.call(method, path, json=body, headers=other.bearer)
        expected = await guarded.call(method, other_path, json=other_body, headers=other.bearer)
        assert str(found).replace("theirs", "absent") == str(expected), f"{method} {path}"
        assert "a secret" not in str(found)
    _, kept = await guarded.call("GET", f"/api/v1/task-sessions/{theirs.session_id}/turns", headers=owner.bearer)
    assert len(kept["turns"]) == 1  # type: ignore[arg-type] # a list, or the test fails


async def test_lists_hold_ones_own(guarded: Stack, people: People) -> None:
    owner, other = await people.add(), await people.add()
    theirs = Room.named(f"listed{next(_numbers)}")
    await fill(guarded, theirs, owner)
    for path, held in (
        ("workspaces", theirs.workspace_id),
        ("tasks", theirs.task_id),
        ("task-sessions", theirs.session_id),
    ):
        _, own = await guarded.call("GET", f"/api/v1/{path}", headers=owner.bearer)
        _, others = await guarded.call("GET", f"/api/v1/{path}", headers=other.bearer)
        assert held in str(own)
        assert held not in str(others)


async def test_a_session_of_another_cannot_be_followed(guarded: Stack, people: People) -> None:
    owner, other = await people.add(), await people.add()
    theirs = Room.named(f"followed{next(_numbers)}")
    await fill(guarded, theirs, owner)
    client = await guarded.connect(headers=other.bearer)
    refused = await client.subscribe(theirs.session_id)
    absent = await client.subscribe("absent")
    assert refused == {**absent, "session_id": theirs.session_id}
    assert refused["error"]["code"] == "not_found"


def routes() -> list[Route]:
    """Those that need somebody."""
    return [route for route in ROUTES if route.access != "public"]


@pytest.mark.parametrize("route", routes(), ids=lambda route: f"{route.method} {route.path}")
async def test_nobody_uses_a_route_without_signing_in(guarded: Stack, route: Route) -> None:
    """Whatever else is wrong with the request."""
    path = route.path.replace(":.*", "").replace("{", "").replace("}", "")
    for headers in ({}, {"Authorization": "Bearer kandev_pat_00000000_" + "x" * 43}):
        status, body = await guarded.call(route.method, path, headers=headers, data=b"{" if route.body else None)
        assert status == 401, body


@pytest.mark.parametrize(
    "route",
    [route for route in routes() if route.access == "administrator"],
    ids=lambda route: f"{route.method} {route.path}",
)
async def test_administration_is_for_administrators(guarded: Stack, person: Person, route: Route) -> None:
    path = route.path.replace(":.*", "").replace("{", "").replace("}", "")
    assert (await guarded.call(route.method, path, headers=person.bearer))[0] == 403


async def test_nothing_secret_reaches_a_log(
    guarded: Stack, person: Person, administrator: Person, caplog: pytest.LogCaptureFixture
) -> None:
    """On the paths that succeed and on those that fail."""
    caplog.set_level("DEBUG")
    secret = "hunter2-hunter2"
    planted = f"kandev_pat_{person.token_id}_{secret}"
    login, password = "/api/v1/auth/login", "/api/v1/auth/password"
    await guarded.call("POST", login, json={"username": person.username, "password": secret})
    await guarded.call("POST", login, json={"username": secret, "password": PASSWORD})
    await guarded.call("POST", login, json={"username": person.username, "password": PASSWORD})
    await guarded.call("POST", login, json={"username": [secret], "password": {"a": secret}})
    await guarded.call("POST", login, data=f'{{"username": "{secret}'.encode())
    body = {"current_password": secret, "new_password": secret}
    await guarded.call("PUT", password, json=body, headers=person.bearer)
    await guarded.call("PUT", password, json={**body, "current_password": PASSWORD}, headers=person.bearer)
    for path in (
        "/api/v1/workspaces",
        f"/ws?token={planted}",
        f"/api/v1/auth/me?token={planted}",
        f"/ws?token=%00{secret}",
    ):
        await guarded.call(
            "GET", path, headers={"Authorization": f"Bearer {planted}", "Cookie": f"kandev_session={secret}"}
        )
    new = {"username": secret, "password": secret}
    await guarded.call("POST", "/api/v1/users", json=new, headers=administrator.bearer)
    await guarded.call("POST", "/api/v1/users", json=new, headers=administrator.bearer)
    await guarded.call("PATCH", f"/api/v1/users/{secret}", json={"password": secret}, headers=administrator.bearer)
    made = await guarded.call("POST", "/api/v1/auth/tokens", json={"name": secret}, headers=person.bearer)
    await guarded.call("DELETE", f"/api/v1/auth/tokens/{secret}", headers=person.bearer)
    client = await guarded.connect(query=f"?token={person.token}")
    await client.close()
    texts = [
        made[1]["token"],
        secret,
        PASSWORD,
        person.token.rpartition("_")[2],
        administrator.token.rpartition("_")[2],
    ]
    lines = [record.getMessage() + str(record.exc_text) for record in caplog.records]
    assert lines
    for text in texts:
        assert not [line for line in lines if str(text) in line]
