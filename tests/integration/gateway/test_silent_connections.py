"""Connections that ask for nothing, or never for the whole of something, are closed; others are not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from urllib.parse import urlsplit

import pytest_asyncio

from tests.support.socket_client import SocketClient
from tests.support.stack import Stack
from tests.support.waiting import PATIENCE, eventually

HEAD = "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"
UPLOAD = "POST /api/v1/workspaces HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
UPGRADE = "GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"


class Raw:
    """A TCP connection to a gateway."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, stack: Stack, gateway: str) -> "Raw":
        """Connects."""
        address = urlsplit(stack.url_of(gateway))
        return cls(*await asyncio.open_connection(address.hostname, address.port))

    def send(self, text: str) -> None:
        """Sends some bytes; a connection that is closed takes them for nothing."""
        self._writer.write(text.encode())

    async def answered(self) -> bytes:
        """The head of an answer."""
        async with asyncio.timeout(PATIENCE):
            return await self.reader.readuntil(b"\r\n\r\n")

    async def ended(self) -> bytes:
        """What came until the gateway closed the connection."""
        async with asyncio.timeout(PATIENCE):
            with suppress(ConnectionError):
                return await self.reader.read()
        return b""

    def close(self) -> None:
        """Closes it."""
        self._writer.transport.abort()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def impatient(shared_stack: Stack) -> AsyncIterator[Stack]:
    """The gateway `impatient` of `shared_stack` waits for next to nothing."""
    await shared_stack.start("gateway", name="impatient", head_seconds=0.5, body_seconds=0.5, idle_seconds=0.5)
    await shared_stack.ready("impatient")
    yield shared_stack
    await shared_stack.stop("impatient")


async def close_code(client: SocketClient) -> int | None:
    """The code with which a gateway has closed, once it has."""
    await eventually(lambda: asyncio.sleep(0, client.closed))
    return client.socket.close_code


async def test_a_connection_without_a_request(impatient: Stack) -> None:
    connection = await Raw.open(impatient, "impatient")
    assert await connection.ended() == b""
    connection.close()


async def test_a_head_that_comes_byte_by_byte_and_never_ends(impatient: Stack) -> None:
    for head in (HEAD, UPGRADE):
        connection = await Raw.open(impatient, "impatient")
        connection.send(head)
        ended = asyncio.create_task(connection.ended())
        while not ended.done():
            connection.send("X")
            await asyncio.wait([ended], timeout=0.01)
        assert await ended == b""
        connection.close()


async def test_a_connection_that_was_answered_and_asks_no_more(impatient: Stack) -> None:
    connection = await Raw.open(impatient, "impatient")
    connection.send(f"{HEAD}\r\n")
    assert b" 200 " in await connection.answered()
    await connection.ended()
    connection.close()


async def test_a_body_that_comes_byte_by_byte_and_never_ends(impatient: Stack) -> None:
    connection = await Raw.open(impatient, "impatient")
    connection.send(f"{UPLOAD}Content-Length: 60000\r\n\r\n")
    ended = asyncio.create_task(connection.ended())
    while not ended.done():
        connection.send(" ")
        await asyncio.wait([ended], timeout=0.01)
    assert await ended == b""
    connection.close()
    assert (await impatient.call("GET", "/health", gateway="impatient"))[0] == 200


async def test_a_socket_that_follows_nothing_is_told_so_and_one_that_follows_stays(impatient: Stack) -> None:
    await impatient.session("followed")
    following, pushed = await impatient.connect("impatient"), await impatient.connect("impatient")
    assert (await following.subscribe("followed"))["success"]
    assert (await pushed.request("session.subscribe", {"session_id": "followed"}))["type"] == "response"
    for _ in range(2):
        idle = await impatient.connect("impatient")
        assert await close_code(idle) == 4010
    assert not following.closed
    assert not pushed.closed
    await following.unsubscribe()
    assert await close_code(following) == 4010
    await pushed.close()


async def test_the_connection_that_waited_longest_makes_room(shared_stack: Stack) -> None:
    await shared_stack.start("gateway", name="cramped", vacant_connections=3)
    await shared_stack.ready("cramped")
    following = await shared_stack.connect("cramped")
    silent = [await Raw.open(shared_stack, "cramped") for _ in range(3)]
    asking = await Raw.open(shared_stack, "cramped")
    asking.send(f"{HEAD}\r\n")
    assert b" 200 " in await asking.answered()
    assert await silent[0].ended() == b""
    newer = await Raw.open(shared_stack, "cramped")
    newer.send(f"{HEAD}\r\n")
    assert b" 200 " in await newer.answered()
    assert await silent[1].ended() == b""
    asking.send(f"{HEAD}\r\n")
    assert b" 200 " in await asking.answered()
    reply = await following.request("session.subscribe", {"session_id": "none"})
    assert reply["type"] == "error", "a connection with a request in hand is none of them"
    for connection in (*silent, asking, newer):
        connection.close()
    await following.close()
    await shared_stack.stop("cramped")
