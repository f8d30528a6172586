"""Following a session without revisions: `session.subscribe` and what it pushes."""

import itertools

import pytest

from services.gateway.websocket.limits import MAX_SCOPES
from tests.integration.identity.people import People
from tests.support.socket_client import Json, SocketClient
from tests.support.stack import Stack
from tests.support.waiting import eventually

_numbers = itertools.count()

SUBSCRIBE, UNSUBSCRIBE = "session.subscribe", "session.unsubscribe"


@pytest.fixture
async def session_id(shared_stack: Stack) -> str:
    """A session of task `t`."""
    name = f"push{next(_numbers)}"
    await shared_stack.session(name)
    return name


@pytest.fixture
async def client(shared_stack: Stack, session_id: str) -> SocketClient:
    """A connection that follows the session."""
    client = await shared_stack.connect()
    reply = await client.request(SUBSCRIBE, {"session_id": session_id})
    assert (reply["type"], reply["payload"]) == ("response", {"success": True, "session_id": session_id})
    return client


def pushes(client: SocketClient, kind: str = "") -> list[Json]:
    """The notifications so far, but for frames of conversation scopes."""
    return [
        each
        for each in client.messages
        if each["type"] == "notification" and each["action"].startswith(kind or ("session.message", "session.turn"))
    ]


async def pushed(client: SocketClient, count: int) -> list[Json]:
    """The pushes, once there are so many."""
    await client.until(lambda: len(pushes(client)) >= count)
    return pushes(client)


async def test_a_message_from_its_creation_to_its_end(
    shared_stack: Stack, session_id: str, client: SocketClient
) -> None:
    path = f"/api/v1/task-sessions/{session_id}/messages"
    name = f"{session_id}-m"
    text = "seen<kandev-system>unseen</kandev-system>"
    body = {"id": name, "author_type": "user", "content": text, "metadata": {"a": 1}, "author_id": "someone"}
    await shared_stack.call("POST", path, json=body)
    (added,) = await pushed(client, 1)
    _, page = await shared_stack.call("GET", f"{path}?limit=1")
    row = page["messages"][0]  # type: ignore[index] # a page's rows
    assert added == {
        "type": "notification",
        "action": "session.message.added",
        "payload": {
            "message_id": name,
            "session_id": session_id,
            "task_id": "t",
            "turn_id": "",
            "author_type": "user",
            "author_id": "someone",
            "content": "seen",
            "raw_content": text,
            "type": "message",
            "requests_input": False,
            "metadata": {"a": 1, "has_hidden_prompts": True},
            "created_at": row["created_at"],
            "updated_at": row["updated_at"],
            "prompt_index": 1,
        },
    }
    change = {"content": "new", "expected_updated_at": row["updated_at"]}
    await shared_stack.call("PATCH", f"{path}/{name}", json=change)
    updated = (await pushed(client, 2))[1]
    assert updated["action"] == "session.message.updated"
    assert (updated["payload"]["content"], updated["payload"]["prompt_index"]) == ("new", 1)
    assert "raw_content" not in updated["payload"]
    await shared_stack.call("DELETE", f"{path}/{name}")
    deleted = (await pushed(client, 3))[2]
    assert deleted["action"] == "session.message.deleted"
    assert deleted["payload"] == {
        "message_id": name,
        "session_id": session_id,
        "task_id": "t",
        "author_type": "user",
    }


async def test_an_agents_message_has_no_ordinal(shared_stack: Stack, session_id: str, client: SocketClient) -> None:
    await shared_stack.add(session_id, f"{session_id}-m", author="agent")
    (added,) = await pushed(client, 1)
    assert "prompt_index" not in added["payload"]


async def test_a_turn_from_its_start_to_its_completion(
    shared_stack: Stack, session_id: str, client: SocketClient
) -> None:
    path = f"/api/v1/task-sessions/{session_id}/turns"
    name = f"{session_id}-turn"
    await shared_stack.call("POST", path, json={"id": name, "execution_profile_id": "p", "route_generation": 2})
    await shared_stack.call("POST", f"{path}/{name}/complete", json={})
    started, completed = await pushed(client, 2)
    assert (started["action"], completed["action"]) == ("session.turn.started", "session.turn.completed")
    assert (
        set(started["payload"])
        == set(completed["payload"])
        == {
            "id",
            "session_id",
            "task_id",
            "execution_profile_id",
            "route_generation",
            "started_at",
            "completed_at",
            "created_at",
            "updated_at",
        }
    )
    assert started["payload"]["completed_at"] is None
    assert (started["payload"]["execution_profile_id"], started["payload"]["route_generation"]) == ("p", 2)
    _, page = await shared_stack.call("GET", path)
    assert completed["payload"]["completed_at"] == page["turns"][0]["completed_at"]  # type: ignore[index] # rows


async def test_rows_that_change_their_session(shared_stack: Stack, session_id: str, client: SocketClient) -> None:
    other = f"{session_id}-other"
    await shared_stack.session(other)
    await shared_stack.add(session_id, f"{session_id}-m", author="agent")
    await pushed(client, 1)
    watching = await shared_stack.connect()
    await watching.request(SUBSCRIBE, {"session_id": other})
    await shared_stack.pool.execute(
        "UPDATE task_session_messages SET task_session_id = $1 WHERE id = $2", other, f"{session_id}-m"
    )
    assert (await pushed(client, 2))[1]["action"] == "session.message.deleted"
    assert (await pushed(watching, 1))[0]["action"] == "session.message.added"


async def test_every_commit_is_pushed_once_and_in_order(
    shared_stack: Stack, session_id: str, client: SocketClient
) -> None:
    """Whatever is joined for the connection's conversation scope."""
    await client.subscribe(session_id)
    again = await client.request(SUBSCRIBE, {"session_id": session_id})
    assert again["payload"]["success"]
    names = [f"{session_id}-{number}" for number in range(60)]
    for name in names:
        await shared_stack.add(session_id, name, author="agent")
    await client.reached(await shared_stack.revision(session_id))
    await pushed(client, 60)
    assert [each["payload"]["message_id"] for each in pushes(client)] == names
    assert {each["action"] for each in pushes(client)} == {"session.message.added"}


async def test_a_change_that_is_too_large_to_tell_has_no_push(
    shared_stack: Stack, session_id: str, client: SocketClient
) -> None:
    await shared_stack.pool.execute(
        "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type) "
        "SELECT $1 || n, $1, 't', 'agent' FROM generate_series(1, 300) n",
        session_id,
    )
    await shared_stack.add(session_id, f"{session_id}-after", author="agent")
    (added,) = await pushed(client, 1)
    assert added["payload"]["message_id"] == f"{session_id}-after"


async def test_only_what_is_followed_is_pushed(shared_stack: Stack, session_id: str, client: SocketClient) -> None:
    other = f"{session_id}-other"
    await shared_stack.session(other)
    await shared_stack.add(other, f"{other}-m")
    await shared_stack.add(session_id, f"{session_id}-1")
    await pushed(client, 1)
    reply = await client.request(UNSUBSCRIBE, {"session_id": session_id})
    assert reply["payload"] == {"success": True, "session_id": session_id}
    await client.subscribe(session_id)
    await shared_stack.add(session_id, f"{session_id}-2")
    await client.reached(await shared_stack.revision(session_id))
    assert [each["payload"]["message_id"] for each in pushes(client)] == [f"{session_id}-1"]
    again = await client.request(UNSUBSCRIBE, {"session_id": session_id})
    assert (again["type"], again["payload"]["code"]) == ("error", "NOT_FOUND")


async def test_pushes_and_frames_of_one_connection_do_not_mix(
    shared_stack: Stack, session_id: str, client: SocketClient
) -> None:
    await shared_stack.add(session_id, f"{session_id}-1")
    await pushed(client, 1)
    actions = {each["action"] for each in client.messages}
    assert actions == {SUBSCRIBE, "session.message.added"}
    assert (await client.unsubscribe(f"\x00{session_id}"))["success"] is False
    assert (await client.subscribe(session_id, session_id))["success"]
    assert (await client.unsubscribe(session_id))["success"]
    await shared_stack.add(session_id, f"{session_id}-2")
    await pushed(client, 2)


async def test_deleting_the_session_ends_the_pushes(shared_stack: Stack, session_id: str, client: SocketClient) -> None:
    """One `session.removed` for the connection, whatever follows the session there, and no terminal frame for it."""
    await client.subscribe(session_id)
    only = await shared_stack.connect()
    await only.request(SUBSCRIBE, {"session_id": session_id})
    await shared_stack.call("DELETE", f"/api/v1/task-sessions/{session_id}")
    for each in (client, only):
        await each.until(lambda each=each: each.removals(session_id) > 0)  # type: ignore[misc] # bound early
    assert (client.removals(session_id), client.terminals()) == (1, 1)
    assert [each["action"] for each in only.messages] == [SUBSCRIBE, "session.removed"]
    reply = await only.request(UNSUBSCRIBE, {"session_id": session_id})
    assert reply["payload"]["code"] == "NOT_FOUND"


@pytest.mark.parametrize("session", ["nowhere", "a\x00b", "x" * 300, "a\nb"])
async def test_sessions_that_are_not_there(shared_stack: Stack, session: str) -> None:
    client = await shared_stack.connect()
    for action, code in (
        (SUBSCRIBE, "FORBIDDEN"),
        (UNSUBSCRIBE, "NOT_FOUND"),
        ("session.focus", "NOT_FOUND"),
        ("session.unfocus", "NOT_FOUND"),
    ):
        reply = await client.request(action, {"session_id": session})
        assert (reply["type"], reply["payload"]) == ("error", {"code": code, "message": "not found"}), action


@pytest.mark.parametrize("action", [SUBSCRIBE, UNSUBSCRIBE, "session.focus", "session.unfocus"])
async def test_payloads_that_cannot_be(shared_stack: Stack, action: str) -> None:
    client = await shared_stack.connect()
    for payload in ({}, {"session_id": ""}, {"session_id": " "}, {"session_id": None}):
        reply = await client.request(action, payload)
        assert reply["payload"] == {"code": "VALIDATION_ERROR", "message": "session_id is required"}
    wrong: tuple[object, ...] = (7, [], {}, True)
    for given in wrong:
        reply = await client.request(action, {"session_id": given})
        assert reply["payload"]["code"] == "BAD_REQUEST"


async def test_focus_is_acknowledged(session_id: str, client: SocketClient) -> None:
    for action in ("session.focus", "session.unfocus"):
        reply = await client.request(action, {"session_id": session_id})
        assert (reply["type"], reply["payload"]) == ("response", {"success": True, "session_id": session_id})


async def test_a_connection_follows_no_more_than_it_may(shared_stack: Stack, session_id: str) -> None:
    client = await shared_stack.connect()
    for number in range(MAX_SCOPES):
        assert (await client.subscribe(session_id, f"scope{number}"))["success"]
    reply = await client.request(SUBSCRIBE, {"session_id": session_id})
    assert (reply["type"], reply["payload"]["code"]) == ("error", "BAD_REQUEST")
    await client.unsubscribe("scope0")
    assert (await client.request(SUBSCRIBE, {"session_id": session_id}))["type"] == "response"
    assert (await client.subscribe(session_id, "one more"))["error"]["code"] == "limit_exceeded"


async def test_a_push_follows_the_reply(shared_stack: Stack, session_id: str) -> None:
    """Commits all around the subscription: none is pushed before the reply."""
    for number in range(20):
        client = await shared_stack.connect()
        await client.send({"id": "x", "type": "request", "action": SUBSCRIBE, "payload": {"session_id": session_id}})
        await shared_stack.add(session_id, f"{session_id}-{number}-a", author="agent")
        await client.reply("x")
        await shared_stack.add(session_id, f"{session_id}-{number}-b", author="agent")
        await client.until(
            lambda client=client, number=number: any(  # type: ignore[misc] # bound early
                each["payload"]["message_id"] == f"{session_id}-{number}-b" for each in pushes(client)
            )
        )
        assert client.messages[0]["action"] == SUBSCRIBE


async def test_nothing_is_followed_once_the_connection_is_gone(stack: Stack) -> None:
    """The gateway goes on for others when a connection with pushes ends."""
    await stack.session("s")
    client = await stack.connect()
    await client.request(SUBSCRIBE, {"session_id": "s"})
    await client.close()
    other = await stack.connect()
    await other.request(SUBSCRIBE, {"session_id": "s"})
    await stack.add("s", "m")
    assert len(await pushed(other, 1)) == 1
    await eventually(lambda: stack.status("gateway"), lambda found: found[0] == 200)


async def test_pushes_end_with_access(accounts_stack: Stack, people: People) -> None:
    """A member who is removed is told nothing any more; the owner is."""
    owner, member = await people.add(), await people.add()
    name = f"shared{next(_numbers)}"
    pool = accounts_stack.pool
    await pool.execute("INSERT INTO workspaces (id, owner_id) VALUES ($1, $2)", name, owner.id)
    await pool.execute("INSERT INTO tasks (id, workspace_id) VALUES ($1, $1)", name)
    await pool.execute("INSERT INTO workspace_members (workspace_id, user_id) VALUES ($1, $2)", name, member.id)
    await accounts_stack.session(name, name)
    clients = [await accounts_stack.connect(headers=person.bearer) for person in (owner, member)]
    for client in clients:
        assert (await client.request(SUBSCRIBE, {"session_id": name}))["type"] == "response"
        assert (await client.subscribe(name))["success"]
    await accounts_stack.add(name, f"{name}-1", task_id=name)
    for client in clients:
        await pushed(client, 1)
    path = f"/api/v1/workspaces/{name}/members/{member.id}"
    assert (await accounts_stack.call("DELETE", path, headers=owner.bearer))[0] == 200
    kept, ended = clients
    await ended.until(lambda: ended.terminals() == 1)
    await accounts_stack.add(name, f"{name}-2", task_id=name)
    await pushed(kept, 2)
    reply = await ended.request(SUBSCRIBE, {"session_id": name})
    assert (reply["type"], reply["payload"]["code"]) == ("error", "FORBIDDEN")
    assert [each["payload"]["message_id"] for each in pushes(ended)] == [f"{name}-1"]
    assert (await ended.request(UNSUBSCRIBE, {"session_id": name}))["payload"]["code"] == "NOT_FOUND"
