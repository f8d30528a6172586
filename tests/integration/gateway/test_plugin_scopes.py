"""Following a conversation for a plugin: what is asked for, what is admitted, and what the frames hold."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import pytest_asyncio

from services.gateway.plugins.registry import ActivePlugin, Registry
from services.gateway.source.requests import Source
from shared.contracts.identity import Identity
from shared.contracts.reads import RevisionAnswer
from tests.integration.gateway.following import House, Json, Room
from tests.integration.identity.people import SECOND
from tests.support.plugins import set_status
from tests.support.socket_client import SocketClient


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def house(postgres_url: str, migrated_template: str, redis_url: str) -> AsyncIterator[House]:
    async with House.open(postgres_url, migrated_template, redis_url, 3) as house:
        yield house


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def plugin(house: House) -> str:
    """A plugin that nothing happens to."""
    return await house.plugin()


@pytest.fixture
async def room(house: House) -> Room:
    return await house.room()


@pytest.fixture
async def client(house: House, room: Room) -> SocketClient:
    """The room's owner."""
    return await house.connect(room.owner)


@pytest.fixture
async def bound(house: House, room: Room, plugin: str) -> Json:
    """What the plugin adds to a subscription of the room's owner."""
    return await house.bound(room.owner, plugin)


def code_of(reply: Json) -> str:
    """The code of a refusal; whether it is worth asking again is the code's."""
    assert reply["success"] is False, reply
    error = reply["error"]
    assert error["retryable"] == (error["code"] in {"generation_superseded", "upstream_failure"})
    assert error["message"]
    found: str = error["code"]
    return found


async def test_frames_carry_rows_as_plugins_may_see_them(
    house: House, room: Room, client: SocketClient, bound: Json
) -> None:
    reply = await client.subscribe(room.session, **bound)
    assert reply["success"], reply
    assert reply["session_id"] == room.session
    first = int(reply["revision"])
    await house.stack.pool.execute(
        """INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content, metadata)
           VALUES ($1, $2, $3, 'user', 'for people <kandev-system>for the agent', '{"secret": 1}')""",
        f"m-{room.session}",
        room.session,
        room.task,
    )
    await house.stack.pool.execute(
        "INSERT INTO task_session_turns (id, task_session_id, task_id, started_at) VALUES ($1, $2, $3, now())",
        f"u-{room.session}",
        room.session,
        room.task,
    )
    await client.reached(first + 2)
    operations = [operation for frame in client.told() for operation in frame["operations"]]
    message, turn = operations[0]["message"], operations[1]["turn"]
    assert set(message) == {
        "id",
        "taskId",
        "sessionId",
        "authorType",
        "type",
        "content",
        "createdAt",
        "updatedAt",
        "promptIndex",
    }
    assert set(turn) == {"id", "taskId", "sessionId", "startedAt", "updatedAt"}
    assert (message["taskId"], message["sessionId"], message["promptIndex"]) == (room.task, room.session, 1)
    assert "for the agent" not in str(client.messages)


async def test_a_plugin_and_a_core_consumer_with_equal_filters_get_their_own_rows(
    house: House, room: Room, client: SocketClient, bound: Json
) -> None:
    await client.subscribe(room.session, "plugin", **bound)
    await client.subscribe(room.session, "core")
    await house.stack.add(room.session, f"m-{room.session}", task_id=room.task)
    revision = await house.stack.revision(room.session)
    for scope_id, name in (("plugin", "sessionId"), ("core", "session_id")):
        await client.reached(revision, scope_id)
        [frame] = [frame for frame in client.told(scope_id) if frame["operations"]]
        assert name in frame["operations"][0]["message"]


async def test_filters_coverage_resets_and_checks_are_those_of_all_scopes(
    house: House, room: Room, client: SocketClient, bound: Json
) -> None:
    """Rows enter and leave; what concerns nothing is coverage; what cannot be told is a reset; checks come by."""
    stack, message = house.stack, f"m-{room.session}"
    await client.subscribe(room.session, authors=["user"], task_id=room.task, sort="desc", **bound)
    await stack.add(room.session, message, author="agent", task_id=room.task)
    await stack.pool.execute("UPDATE task_session_messages SET author_type = 'user' WHERE id = $1", message)
    await stack.pool.execute("UPDATE task_session_messages SET author_type = 'agent' WHERE id = $1", message)
    await client.reached(await stack.revision(room.session))
    kinds = [[operation["kind"] for operation in frame["operations"]] for frame in client.told()]
    assert kinds == [[], ["upsert"], ["remove"]]
    await stack.pool.execute(
        """INSERT INTO task_session_messages (id, task_session_id, task_id, author_type)
           SELECT $1 || n, $1, $2, 'user' FROM generate_series(1, 300) n""",
        room.session,
        room.task,
    )
    await client.until(lambda: client.resets() == 1)
    await client.until(lambda: any("check" in frame for frame in client.frames()))


async def test_a_session_that_is_deleted_ends_a_plugins_scope_and_is_announced(
    house: House, room: Room, client: SocketClient, bound: Json
) -> None:
    await client.subscribe(room.session, **bound)
    await house.stack.pool.execute("DELETE FROM task_sessions WHERE id = $1", room.session)
    await client.until(lambda: client.removals(room.session) == 1)
    assert client.terminals() == 1


@pytest.mark.parametrize(
    "change",
    [
        {"plugin_id": None},
        {"generation": None},
        {"binding_token": None},
        {"generation": "7"},
        {"generation": True},
        {"plugin_id": 7},
        {"binding_token": ["x"]},
        {"managed_conversation_token": "x"},
        {"consumer_kind": "other"},
        {"sort": "newest"},
        {"authors": ["user", "user"]},
        {"authors": ["system"]},
        {"task_id": ""},
        {"task_id": "another"},
        {"protocol_version": 1},
        {"session_id": ""},
        {"session_id": None},
        {"scope_id": None},
    ],
    ids=str,
)
async def test_requests_that_cannot_be_granted_as_they_are(
    room: Room, client: SocketClient, bound: Json, change: Mapping[str, Any]
) -> None:
    payload = {"session_id": room.session, "scope_id": "scope", **bound, **change}
    reply = await client.request(
        "session.conversation.subscribe", {name: value for name, value in payload.items() if value is not None}
    )
    assert reply["type"] == "response"
    assert code_of(reply["payload"]) == "invalid_request"
    assert (await client.unsubscribe())["success"] is False


@pytest.mark.parametrize("field", ["plugin_id", "generation", "binding_token", "managed_conversation_token"])
async def test_a_core_consumer_names_no_plugin(room: Room, client: SocketClient, bound: Json, field: str) -> None:
    given = {field: bound.get(field, "token")}
    assert code_of(await client.subscribe(room.session, **given)) == "invalid_request"


async def test_plugins_that_may_not_be_known_look_alike(
    house: House, room: Room, client: SocketClient, bound: Json, plugin: str
) -> None:
    """Not there, not active, and active without the capability: one answer, whatever the binding."""
    disabled, mute = await house.plugin(status="disabled"), await house.plugin(reads=())
    replies = [
        await client.subscribe(room.session, **{**bound, "plugin_id": name}) for name in ("nowhere", disabled, mute)
    ]
    assert [reply["error"] for reply in replies] == [replies[0]["error"]] * 3
    assert code_of(replies[0]) == "not_found"


async def test_bindings_of_others_are_invalid(
    house: House, room: Room, client: SocketClient, bound: Json, plugin: str
) -> None:
    another, other = await house.plugin(), await house.people.add()
    foreign = await house.bound(other, plugin)
    elsewhere = await house.bound(room.owner, another)
    for token in ("", "x", bound["binding_token"] + "x", foreign["binding_token"], elsewhere["binding_token"]):
        reply = await client.subscribe(room.session, **{**bound, "binding_token": token})
        assert code_of(reply) == "invalid_binding"
    assert (await client.subscribe(room.session, **bound))["success"]


async def test_an_earlier_installation_is_superseded(house: House, room: Room, client: SocketClient) -> None:
    """Whether the binding is of the earlier one, or the request alone says so."""
    name = await house.plugin()
    old = await house.bound(room.owner, name)
    await house.plugin(name, version="1.0.1")
    new = await house.bound(room.owner, name)
    assert old["generation"] < new["generation"]
    assert code_of(await client.subscribe(room.session, **old)) == "generation_superseded"
    mixed = {**new, "generation": old["generation"]}
    assert code_of(await client.subscribe(room.session, **mixed)) == "generation_superseded"
    assert code_of(await client.subscribe(room.session, **{**old, "binding_token": "x"})) == "invalid_binding"
    assert (await client.subscribe(room.session, **new))["success"]


async def test_what_is_wrong_first_is_what_is_told(house: House, room: Room, client: SocketClient, bound: Json) -> None:
    """The request itself, the plugin, its binding, the session, its task: in the order of the HTTP routes."""
    stranger = await house.room()
    wrong: list[tuple[str, Json]] = [
        ("invalid_request", {"authors": ["user", "user"]}),
        ("not_found", {"plugin_id": "nowhere"}),
        ("invalid_binding", {"binding_token": "x"}),
        ("generation_superseded", {"generation": bound["generation"] - 1}),
        ("not_found", {"session_id": stranger.session}),
        ("invalid_request", {"task_id": stranger.task}),
    ]
    for count in range(len(wrong), 0, -1):
        code = wrong[-count][0]
        faults: Json = {name: value for _, fault in wrong[-count:] for name, value in fault.items()}
        reply = await client.subscribe(faults.pop("session_id", room.session), **{**bound, **faults})
        assert code_of(reply) == code


@pytest.mark.parametrize("kind", ["core", "plugin"])
async def test_a_foreign_session_looks_as_one_that_is_not_there(
    house: House, room: Room, client: SocketClient, bound: Json, kind: str
) -> None:
    stranger = await house.room()
    more = bound if kind == "plugin" else {}
    foreign = await client.subscribe(stranger.session, **more)
    absent = await client.subscribe("nowhere", **more)
    assert code_of(foreign) == "not_found"
    assert foreign["error"] == absent["error"]


async def test_unsubscribing_takes_what_a_plugin_sends(room: Room, client: SocketClient, bound: Json) -> None:
    await client.subscribe(room.session, **bound)
    reply = await client.unsubscribe(session_id=room.session, **bound)
    assert reply == {
        "success": True,
        "protocol_version": 2,
        "scope_id": "scope",
        "session_id": room.session,
    }
    assert code_of(await client.unsubscribe(**bound)) == "invalid_request"


async def test_a_plugin_that_is_disabled_while_its_scopes_open(house: House, room: Room, client: SocketClient) -> None:
    """Whatever the order: a scope that was opened is ended, one that was not is refused, none stays."""
    name = await house.plugin()
    bound = await house.bound(room.owner, name)
    opening = [asyncio.create_task(client.subscribe(room.session, f"scope{number}", **bound)) for number in range(20)]
    await set_status(house.stack, name, "disabled", (SECOND,), house.first.bearer)
    for number, reply in enumerate(await asyncio.gather(*opening)):
        if reply["success"]:
            await client.until(lambda scope=f"scope{number}": client.terminals(scope) == 1)  # type: ignore[misc] # bound
        else:
            assert code_of(reply) == "not_found"


async def test_nothing_of_one_reaches_another(house: House) -> None:
    """Two people, two workspaces, two plugins, one gateway: no frame, id or count crosses."""
    plugins = [await house.plugin() for _ in range(2)]
    rooms = [await house.room() for _ in range(2)]
    clients = [await house.connect(room.owner) for room in rooms]
    for room, client in zip(rooms, clients, strict=True):
        for name in plugins:
            await client.subscribe(room.session, f"{name} of {room.session}", **await house.bound(room.owner, name))
        other = rooms[1 - rooms.index(room)]
        for name in plugins:
            refused = await client.subscribe(other.session, "refused", **await house.bound(room.owner, name))
            assert code_of(refused) == "not_found"
        client.messages.clear()
    for number in range(5):
        for room in rooms:
            await house.stack.add(room.session, f"m{number} of {room.session}", task_id=room.task)
    await house.stack.pool.execute("DELETE FROM task_sessions WHERE id = $1", rooms[1].session)
    await clients[1].until(lambda: clients[1].removals(rooms[1].session) == 1)
    await clients[0].reached(await house.stack.revision(rooms[0].session), f"{plugins[1]} of {rooms[0].session}")
    for room, client in zip(rooms, clients, strict=True):
        told = str(client.messages)
        other = rooms[1 - rooms.index(room)]
        for secret in (other.session, other.task, other.workspace, other.owner.id, other.owner.username):
            assert secret not in told
        for name in plugins:
            scope_id = f"{name} of {room.session}"
            rows = [operation["id"] for frame in client.told(scope_id) for operation in frame["operations"]]
            assert rows == [f"m{number} of {room.session}" for number in range(5)]
            assert client.terminals(scope_id) == rooms.index(room)


async def test_frames_cost_no_read(
    house: House, room: Room, client: SocketClient, bound: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was granted is known: a hundred changes ask the source nothing but what checks ask anyway."""
    asked: list[str] = []
    ask, look_up = Source.revision, Registry.active

    async def noted(source: Source, identity: Identity, session_id: str, **more: Any) -> RevisionAnswer:
        asked.append(session_id)
        return await ask(source, identity, session_id, **more)

    def looked_up(registry: Registry, plugin_id: str) -> ActivePlugin | None:
        asked.append(plugin_id)
        return look_up(registry, plugin_id)

    await client.subscribe(room.session, **bound)
    monkeypatch.setattr(Source, "revision", noted)
    monkeypatch.setattr(Registry, "active", looked_up)
    for number in range(100):
        await house.stack.add(room.session, f"{number} of {room.session}", task_id=room.task)
    await client.reached(await house.stack.revision(room.session))
    assert asked == []
