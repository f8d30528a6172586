"""Clients that do not read: nobody else waits for them, and they cost a bounded amount of memory."""

import asyncio
import logging
import os
import socket
from base64 import b64encode
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest

from services.gateway.source.requests import Source
from services.gateway.websocket import closes, outbox
from shared.contracts.reads import MessagesAnswer, MessagesPage
from tests.support.stack import Stack
from tests.support.waiting import PATIENCE, eventually

LARGE = "x" * 200_000


class RawClient:
    """A WebSocket client that reads only when it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, url: str) -> "RawClient":
        """Connects with a small receive buffer and completes the handshake."""
        address = urlsplit(url)
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, (address.hostname, address.port))
        reader, writer = await asyncio.open_connection(sock=connection, limit=4096)
        key = b64encode(os.urandom(16)).decode()
        writer.write(
            f"GET /ws HTTP/1.1\r\nHost: {address.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        answer = await reader.readuntil(b"\r\n\r\n")
        assert b" 101 " in answer
        return cls(reader, writer)

    def send(self, message: object) -> None:
        """Sends one text message, masked with zeros."""
        data = orjson.dumps(message)
        head = (
            bytes((0x81, 0x80 | len(data))) if len(data) < 126 else bytes((0x81, 0xFE)) + len(data).to_bytes(2, "big")
        )
        self.writer.write(head + bytes(4) + data)

    def subscribe(self, session_id: str, scope_id: str) -> None:
        """Asks for a scope."""
        payload = {"session_id": session_id, "scope_id": scope_id, "consumer_kind": "core"}
        self.send({"id": scope_id, "type": "request", "action": "session.conversation.subscribe", "payload": payload})

    async def message(self) -> tuple[int, bytes]:
        """Opcode and payload of the next frame."""
        first, second = await self.reader.readexactly(2)
        length = second & 0x7F
        if length >= 126:
            length = int.from_bytes(await self.reader.readexactly(2 if length == 126 else 8), "big")
        return first & 0x0F, await self.reader.readexactly(length)

    async def read_to_the_end(self) -> None:
        """Reads until the connection breaks."""
        while True:
            await self.message()

    def close(self) -> None:
        """Drops the connection, with what it has not sent."""
        self.writer.transport.abort()


async def test_others_are_served_and_the_slow_one_is_reset_once_it_reads(stack: Stack) -> None:
    await stack.session("s")
    slow = await RawClient.open(stack.url)
    for number in range(3):
        slow.subscribe("s", f"slow{number}")
        await slow.message()
    client = await stack.connect()
    await client.subscribe("s")
    for number in range(40):
        await stack.add("s", f"m{number}", author="agent", content=LARGE)
    last = await stack.revision("s")
    await client.until(lambda: any(int(frame["revision"] or -1) >= last for frame in client.told()))
    resets: dict[str, int] = {}
    received = 0
    while len(resets) < 3:
        opcode, data = await slow.message()
        received += len(data)
        if opcode != 1:
            continue
        payload = orjson.loads(data)["payload"]
        if payload.get("reset"):
            resets[payload["scope_id"]] = resets.get(payload["scope_id"], 0) + 1
    assert resets == {"slow0": 1, "slow1": 1, "slow2": 1}
    assert received < 3 * 40 * len(LARGE), "what could not be sent was dropped, not kept"
    await stack.add("s", "after")
    seen: set[str] = set()
    while len(seen) < 3:
        opcode, data = await slow.message()
        if opcode == 1 and b'"after"' in data:
            seen.add(orjson.loads(data)["payload"]["scope_id"])
    slow.close()


async def test_a_scope_that_is_told_much_pushes_out_no_other_of_its_connection(stack: Stack) -> None:
    """The quiet one's frames are all there once the client reads, although the chatty one's were too many."""
    for session_id in ("chatty", "quiet"):
        await stack.session(session_id)
    slow = await RawClient.open(stack.url)
    for session_id in ("chatty", "quiet"):
        slow.subscribe(session_id, session_id)
        await slow.message()
    client = await stack.connect()
    await client.subscribe("chatty")
    for number in range(40):
        await stack.add("chatty", f"m{number}", author="agent", content=LARGE)
        if number % 10 == 9:
            await stack.add("quiet", f"q{number}")
    await stack.add("chatty", "last")
    last = await stack.revision("chatty")
    await client.until(lambda: any(int(frame["revision"] or -1) >= last for frame in client.told()))
    heard: dict[str, list[dict[str, Any]]] = {"chatty": [], "quiet": []}
    while not any(frame.get("reset") for frame in heard["chatty"]):
        opcode, data = await slow.message()
        if opcode == 1:
            payload = orjson.loads(data)["payload"]
            heard[payload["scope_id"]].append(payload)
    changes = [frame for frame in heard["quiet"] if not frame.get("check")]
    assert [each["message"]["id"] for frame in changes for each in frame["operations"]] == ["q9", "q19", "q29", "q39"]
    assert not any(frame.get("reset") for frame in heard["quiet"])
    slow.close()


async def test_a_client_that_reads_on_in_time_learns_why_it_was_closed(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The close frame waits behind what had been sent; what had only been queued is gone."""
    caplog.set_level(logging.INFO, "services.gateway.websocket.connection")
    monkeypatch.setattr(outbox, "BLOCKED_SECONDS", 0.3)
    monkeypatch.setattr(closes, "SLOW_CONSUMER", closes.SLOW_CONSUMER._replace(patience=PATIENCE))
    await stack.session("s")
    slow = await RawClient.open(stack.url)
    slow.subscribe("s", "slow")
    for number in range(60):
        await stack.add("s", f"m{number}", author="agent", content=LARGE)
    await eventually(lambda: asyncio.sleep(0, "took nothing for too long" in caplog.text))
    received, opcode, data = 0, 1, b""
    while opcode != 8:
        opcode, data = await slow.message()
        received += len(data)
    assert (int.from_bytes(data[:2], "big"), data[2:]) == (4008, b"slow consumer")
    assert received < 60 * len(LARGE), "the queue was dropped"
    slow.writer.write(bytes((0x88, 0x82)) + bytes(4) + data[:2])
    assert await slow.reader.read() == b""
    slow.close()


async def test_a_client_that_takes_nothing_is_cut(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "services.gateway.websocket.connection")
    monkeypatch.setattr(outbox, "BLOCKED_SECONDS", 0.3)
    monkeypatch.setattr(closes, "SLOW_CONSUMER", closes.SLOW_CONSUMER._replace(patience=0.3))
    await stack.session("s")
    slow = await RawClient.open(stack.url)
    slow.subscribe("s", "slow")
    client = await stack.connect()
    await client.subscribe("s")
    for number in range(60):
        await stack.add("s", f"m{number}", author="agent", content=LARGE)
    last = await stack.revision("s")
    await client.until(lambda: any(int(frame["revision"] or -1) >= last for frame in client.told()))
    await eventually(lambda: asyncio.sleep(0, "did not answer close 4008" in caplog.text))
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await slow.read_to_the_end()
    slow.close()
    assert not client.closed


async def test_a_stopping_gateway_does_not_wait_for_a_client_that_takes_nothing(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "services.gateway.websocket.connection")
    monkeypatch.setattr(outbox, "BLOCKED_SECONDS", 0.3)
    monkeypatch.setattr(closes, "SLOW_CONSUMER", closes.SLOW_CONSUMER._replace(patience=10 * PATIENCE))
    await stack.session("s")
    slow = await RawClient.open(stack.url)
    slow.subscribe("s", "slow")
    for number in range(60):
        await stack.add("s", f"m{number}", author="agent", content=LARGE)
    await eventually(lambda: asyncio.sleep(0, "took nothing for too long" in caplog.text))
    async with asyncio.timeout(PATIENCE):
        await stack.stop("gateway")
    slow.close()


async def test_a_client_that_asks_and_never_reads_has_to_wait(stack: Stack) -> None:
    """Its requests stay in its own buffers: the gateway takes no more of them than it could answer."""
    slow = await RawClient.open(stack.url)
    request = {"id": "x" * 60_000, "type": "request", "action": "nothing", "payload": {}}
    sent = 0

    async def send() -> None:
        nonlocal sent
        while sent < 2000:
            slow.send(request)
            await slow.writer.drain()
            sent += 1

    sending = asyncio.create_task(send())
    client = await stack.connect()
    await stack.session("s")
    await client.subscribe("s")
    await client.until(lambda: len([frame for frame in client.frames() if "check" in frame]) >= 2)
    assert not sending.done()
    sending.cancel()
    await asyncio.wait([sending])
    slow.close()
    assert sent < 1500


async def test_pages_are_not_read_for_a_client_that_takes_none(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of many large pages that it asks for at once, few are held for it."""
    read = []
    messages = Source.messages

    async def noting(source: Source, page: MessagesPage) -> MessagesAnswer:
        read.append(page.session_id)
        return await messages(source, page)

    caplog.set_level(logging.INFO, "services.gateway.websocket.connection")
    monkeypatch.setattr(Source, "messages", noting)
    monkeypatch.setattr(outbox, "BLOCKED_SECONDS", 2.0)
    await stack.session("s")
    for number in range(4):
        await stack.add("s", f"m{number}", content=LARGE * 5)
    slow = await RawClient.open(stack.url)
    for number in range(50):
        slow.send({"id": str(number), "type": "request", "action": "message.list", "payload": {"session_id": "s"}})
    await eventually(lambda: asyncio.sleep(0, "took nothing for too long" in caplog.text))
    slow.close()
    assert 1 <= len(read) <= 4
