"""Opening and closing scopes (G1), and what a connection may ask."""

import asyncio

import aiohttp
import pytest
from yarl import URL

from services.gateway.websocket.connection import MAX_MESSAGE_BYTES
from services.gateway.websocket.limits import MAX_SCOPES
from tests.support.socket_client import Json, SocketClient
from tests.support.stack import Stack
from tests.support.waiting import eventually

SESSIONS = 3
WRITERS = 3
SUBSCRIPTIONS = 240


def gaps(revision: str, frames: list[Json]) -> list[Json]:
    """The frames that do not begin where the last one ended."""
    found = []
    for frame in frames:
        if frame["base_revision"] != revision:
            found.append(frame)
        revision = frame["revision"]
    return found


async def test_no_commit_is_lost_between_the_reply_and_the_frames(stack: Stack) -> None:
    """Writers commit all the time while scopes open: every scope is told every revision above its reply's."""
    for number in range(SESSIONS):
        await stack.session(f"s{number}")
    writing = True

    async def write(writer: int) -> None:
        count = 0
        while writing:
            await stack.add(f"s{count % SESSIONS}", f"{writer}-{count}", author="agent")
            count += 1

    writers = [asyncio.create_task(write(number)) for number in range(WRITERS)]
    clients = [await stack.connect() for _ in range(6)]

    async def subscribe(number: int) -> Json:
        client = clients[number % len(clients)]
        return await client.subscribe(f"s{number % SESSIONS}", f"scope{number}")

    replies: list[Json] = []
    for first in range(0, SUBSCRIPTIONS, 24):
        replies += await asyncio.gather(*(subscribe(first + number) for number in range(24)))
    writing = False
    await asyncio.gather(*writers)
    for number, reply in enumerate(replies):
        assert reply["success"], reply
        client, scope_id = clients[number % len(clients)], f"scope{number}"
        await client.reached(await stack.revision(f"s{number % SESSIONS}"), scope_id)
        told = client.told(scope_id)
        assert gaps(reply["revision"], told) == []
        assert client.resets(scope_id) == 0


async def test_a_reply_comes_before_the_first_frame(stack: Stack) -> None:
    await stack.session("s")
    client = await stack.connect()
    for number in range(30):
        adding = asyncio.create_task(stack.add("s", f"m{number}"))
        reply = await client.subscribe("s", f"scope{number}")
        await adding
        if int(reply["revision"]) < (revision := await stack.revision("s")):
            await client.reached(revision, f"scope{number}")
        places = [
            place for place, each in enumerate(client.messages) if each["payload"].get("scope_id") == f"scope{number}"
        ]
        assert client.messages[places[0]]["payload"] == reply


async def test_unsubscribing_ends_the_frames(stack: Stack) -> None:
    await stack.session("s")
    client = await stack.connect()
    await client.subscribe("s", "kept")
    await client.subscribe("s", "left")
    assert await client.unsubscribe("left", session_id="s") == {
        "success": True,
        "protocol_version": 2,
        "scope_id": "left",
        "session_id": "s",
    }
    before = len(client.frames("left"))
    await stack.add("s", "m")
    await client.reached(await stack.revision("s"), "kept")
    assert len(client.frames("left")) == before
    refused = await client.unsubscribe("left")
    assert (refused["success"], refused["error"]["code"], refused["error"]["retryable"]) == (
        False,
        "invalid_request",
        False,
    )


async def test_unsubscribing_from_another_session_closes_nothing(stack: Stack) -> None:
    await stack.session("s")
    client = await stack.connect()
    await client.subscribe("s")
    assert (await client.unsubscribe(session_id="z"))["error"]["code"] == "invalid_request"
    await stack.add("s", "m")
    await client.reached(await stack.revision("s"))


async def test_the_same_scope_id_replaces_the_earlier_scope(stack: Stack) -> None:
    for name in ("one", "two"):
        await stack.session(name)
    client = await stack.connect()
    await client.subscribe("one")
    await client.subscribe("two")
    await stack.add("one", "m1")
    await stack.add("two", "m2")
    await client.until(lambda: bool(client.told()))
    assert {frame["session_id"] for frame in client.told()} == {"two"}


async def test_a_failed_replacement_has_replaced_the_earlier_scope(stack: Stack) -> None:
    await stack.session("s")
    client = await stack.connect()
    await client.subscribe("s")
    await client.subscribe("s", "witness")
    refused = await client.subscribe("nowhere")
    assert (refused["error"]["code"], refused["session_id"]) == ("not_found", "nowhere")
    await stack.add("s", "m")
    await client.reached(await stack.revision("s"), "witness")
    assert client.told() == []
    assert (await client.unsubscribe())["success"] is False


async def test_scopes_of_two_connections_may_share_an_id(stack: Stack) -> None:
    await stack.session("s")
    clients = [await stack.connect(), await stack.connect()]
    for client in clients:
        await client.subscribe("s")
    await stack.add("s", "m")
    for client in clients:
        await client.reached(await stack.revision("s"))


async def test_replacing_while_opening_answers_both(stack: Stack) -> None:
    await stack.session("s")
    client = await stack.connect()
    replies = await asyncio.gather(*(client.subscribe("s") for _ in range(5)))
    assert replies[-1]["success"] is True
    for reply in replies[:-1]:
        assert reply["success"] or reply["error"]["code"] == "invalid_request"
    await stack.add("s", "m")
    await client.reached(await stack.revision("s"))
    assert len(client.told()) == 1


async def test_a_connection_has_a_limited_number_of_scopes(stack: Stack) -> None:
    await stack.session("s")
    client = await stack.connect()
    for first in range(0, MAX_SCOPES, 32):
        replies = await asyncio.gather(*(client.subscribe("s", f"scope{first + number}") for number in range(32)))
        assert all(reply["success"] for reply in replies)
    refused = await client.subscribe("s", "one too many")
    assert (refused["error"]["code"], refused["error"]["retryable"]) == ("limit_exceeded", False)
    assert (await client.subscribe("s", "scope7"))["success"], "replacing needs no further place"
    await client.unsubscribe("scope9")
    assert (await client.subscribe("s", "one too many"))["success"]


REFUSED_SUBSCRIPTIONS: list[Json] = [
    {},
    {"session_id": "s", "scope_id": "scope"},
    {"session_id": "", "scope_id": "scope", "consumer_kind": "core"},
    {"session_id": "s", "scope_id": "", "consumer_kind": "core"},
    {"session_id": "s\u0000", "scope_id": "scope", "consumer_kind": "core"},
    {"session_id": "s" * 256, "scope_id": "scope", "consumer_kind": "core"},
    {"session_id": 7, "scope_id": "scope", "consumer_kind": "core"},
    {"session_id": "s", "scope_id": "scope", "consumer_kind": "other"},
    {"session_id": "s", "scope_id": "scope", "consumer_kind": "plugin"},
    {"session_id": "s", "scope_id": "scope", "consumer_kind": "core", "protocol_version": 1},
    {"session_id": "s", "scope_id": "scope", "consumer_kind": "core", "plugin_id": "p"},
    {"session_id": "s", "scope_id": "scope", "consumer_kind": "core", "generation": 1},
    {"session_id": "s", "scope_id": "scope", "consumer_kind": "core", "binding_token": "b"},
    {"session_id": "s", "scope_id": "scope", "consumer_kind": "core", "authors": ["robot"]},
    {"session_id": "s", "scope_id": "scope", "consumer_kind": "core", "authors": ["user", "user"]},
    {"session_id": "s", "scope_id": "scope", "consumer_kind": "core", "authors": "user"},
    {"session_id": "s", "scope_id": "scope", "consumer_kind": "core", "sort": "sideways"},
    {"session_id": "s", "scope_id": "scope", "consumer_kind": "core", "task_id": ""},
]


async def test_subscriptions_that_cannot_be(stack: Stack) -> None:
    await stack.session("s")
    client = await stack.connect()
    for payload in REFUSED_SUBSCRIPTIONS:
        reply = await client.request("session.conversation.subscribe", payload)
        assert reply["type"] == "response"
        found = reply["payload"]
        assert (found["success"], found["error"]["code"], found["error"]["retryable"]) == (
            False,
            "invalid_request",
            False,
        ), payload
    assert (await client.unsubscribe())["success"] is False, "none of them was opened"


async def test_a_task_that_is_not_the_sessions_has_no_rows_there(stack: Stack) -> None:
    """Rows carry a task of their own, so that any task may be asked for; of one that none has, revisions are told."""
    await stack.session("s")
    client = await stack.connect()
    for task in ("u", "nowhere", "x" * 255, " t", "'; --"):
        assert (await client.subscribe("s", task, task_id=task))["success"] is True
    await stack.add("s", "own")
    await stack.add("s", "of u", task_id="u")
    revision = await stack.revision("s")
    for task in ("u", "nowhere", "x" * 255, " t", "'; --"):
        await client.reached(revision, task)
        told = [each["id"] for frame in client.told(task) for each in frame["operations"]]
        assert told == (["of u"] if task == "u" else [])


MALFORMED: list[str | bytes] = [
    "",
    "no json",
    "null",
    "[]",
    "7",
    '"text"',
    "{}",
    '{"type":"request"}',
    '{"type":"request","action":7}',
    '{"type":"notification","action":"session.conversation.subscribe","payload":{}}',
    '{"type":"request","action":"session.conversation.subscribe","payload":[]}',
    '{"type":"request","action":"session.conversation.subscribe","payload":"x"}',
    '{"id":7,"type":"request","action":"session.conversation.subscribe","payload":{}}',
    '{"type":"request","action":"x","payload":{}}{"type":"request","action":"x","payload":{}}',
    "[" * 100_000,
    '{"a":' * 50_000,
    '{"type":"request","action":"\\ud800"}',
    b"\xff\xfe",
    b"\x00",
    b"",
]


async def test_messages_that_are_not_requests_are_answered_and_the_connection_goes_on(stack: Stack) -> None:
    await stack.session("s")
    client = await stack.connect()
    for number, message in enumerate(MALFORMED, start=1):
        await (client.socket.send_str(message) if isinstance(message, str) else client.socket.send_bytes(message))
        await client.until(lambda number=number: len(client.messages) == number)  # type: ignore[misc] # a bound default
        reply = client.messages[-1]
        assert reply["type"] == "error"
        assert reply["payload"]["code"] == "BAD_REQUEST"
    assert (await client.subscribe("s"))["success"]


async def test_an_error_repeats_id_and_action_where_they_can_be_told(stack: Stack) -> None:
    client = await stack.connect()
    await client.send({"id": "a", "type": "request", "action": "session.nothing", "payload": {}})
    reply = await client.reply("a")
    assert (reply["type"], reply["action"], reply["payload"]["code"]) == ("error", "session.nothing", "UNKNOWN_ACTION")
    await client.send({"id": "b", "type": "response", "action": "session.nothing"})
    reply = await client.reply("b")
    assert (reply["type"], reply["action"], reply["payload"]["code"]) == ("error", "session.nothing", "BAD_REQUEST")


async def test_binary_messages_and_unknown_fields_are_taken(stack: Stack) -> None:
    await stack.session("s")
    client = await stack.connect()
    payload = {"session_id": "s", "scope_id": "scope", "consumer_kind": "core", "later": 1}
    await client.send(
        {"id": "a", "type": "request", "action": "session.conversation.subscribe", "payload": payload, "later": {}}
    )
    assert (await client.reply("a"))["payload"]["success"] is True


async def test_a_message_that_is_too_big_closes_the_connection(stack: Stack) -> None:
    """Its length alone does: what follows need not be sent."""
    address = URL(stack.url)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(
        b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"\x81\xff" + (MAX_MESSAGE_BYTES + 1).to_bytes(8) + b"mask" + b"x" * 100)
    opcode, length, *code = await reader.readexactly(4)
    assert (opcode, length >= 2) == (0x88, True)
    assert int.from_bytes(bytes(code)) == aiohttp.WSCloseCode.MESSAGE_TOO_BIG
    writer.close()


@pytest.mark.parametrize(
    "header", [{"Origin": "http://evil.example.com"}, {"Host": "evil.example.com"}, {"Origin": "null"}]
)
async def test_a_foreign_page_gets_no_socket(stack: Stack, header: dict[str, str]) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await stack.http.ws_connect(stack.url + "/ws", headers=header)
    assert refused.value.status == 403


async def test_a_page_of_another_loopback_port_gets_one(stack: Stack) -> None:
    await stack.session("s")
    client = await SocketClient.open(stack.http, stack.url + "/ws", headers={"Origin": "http://localhost:3000"})
    assert (await client.subscribe("s"))["success"]
    await client.close()


async def test_a_stopping_gateway_says_so(stack: Stack) -> None:
    client = await stack.connect()
    await stack.stop("gateway")
    assert await client.ended() == aiohttp.WSCloseCode.GOING_AWAY
    await stack.start("gateway")
    await stack.ready("gateway")


async def test_a_client_that_leaves_takes_its_scopes_along(stack: Stack) -> None:
    """No scope, no read: nobody asks for revisions any more."""
    await stack.session("s")
    client = await stack.connect()
    await client.subscribe("s")
    await client.close()
    other = await stack.connect()

    async def asked() -> int:
        return int((await stack.redis.xinfo_stream("conversation:reads"))["entries-added"])

    await other.subscribe("s")
    await eventually(asked, lambda found: found > 1)
    await stack.add("s", "m")
    await other.reached(await stack.revision("s"))
