"""The way out to one client, on real sockets: what is written when, and that it stays whole and in order."""

import asyncio
import os
import socket
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.test_utils import TestServer

from services.gateway.websocket.framing import framed
from services.gateway.websocket.outbox import MAX_BUFFERED, Outbox
from tests.support.waiting import PATIENCE

LARGE = b"x" * 60_000


class Scope:
    """Owns frames; nothing else of a scope is needed here."""

    def lose_backlog(self) -> None:
        raise AssertionError("there was room")


SCOPE = Scope()


class Client:
    """A client whose socket takes little and is read when a test says so."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    async def read(self, size: int) -> bytes:
        """Exactly so many bytes."""
        loop, found = asyncio.get_running_loop(), bytearray()
        async with asyncio.timeout(PATIENCE):
            while len(found) < size:
                found += await loop.sock_recv(self._connection, size - len(found))
        return bytes(found)

    def has_something(self) -> bool:
        """Whether anything can be read now: on loopback, all that was written and fits."""
        try:
            return bool(self._connection.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return False


@asynccontextmanager
async def connected(send_buffer: int | None = None) -> AsyncIterator[tuple[Outbox, Client]]:
    """An outbox of a real connection, and the client at its other end. `send_buffer`: bytes that the kernel keeps."""
    made: asyncio.Future[Outbox] = asyncio.get_running_loop().create_future()

    async def serve(request: web.Request) -> web.WebSocketResponse:
        response = web.WebSocketResponse(compress=False)
        await response.prepare(request)
        assert request.transport is not None
        if send_buffer is not None:
            request.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        outbox = Outbox(response, request.transport, lambda: None, lambda: None)
        made.set_result(outbox)
        async for _ in response:
            pass
        outbox.close()
        return response

    application = web.Application()
    application.add_routes([web.get("/ws", serve)])
    async with TestServer(application) as server:
        address = urlsplit(str(server.make_url("/")))
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(connection, (address.hostname, address.port))
            key = b64encode(os.urandom(16))
            await loop.sock_sendall(
                connection,
                b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Key: %b\r\nSec-WebSocket-Version: 13\r\n\r\n" % key,
            )
            answer = b""
            while not answer.endswith(b"\r\n\r\n"):
                answer += await loop.sock_recv(connection, 1)
            assert b" 101 " in answer
            yield await made, Client(connection)


async def test_a_frame_leaves_at_once() -> None:
    async with connected() as (outbox, client):
        assert outbox.offer(framed(b"one"), SCOPE)
        assert client.has_something()
        assert await client.read(5) == framed(b"one")


async def test_what_the_socket_takes_in_part_arrives_whole_and_before_what_follows() -> None:
    async with connected() as (outbox, client):
        frames = [framed(b"%d" % number + LARGE) for number in range(80)]
        for frame in frames:
            assert outbox.offer(frame, SCOPE)
        outbox.deliver(b"at the end")
        expected = b"".join(frames) + framed(b"at the end")
        assert await client.read(len(expected)) == expected


async def test_a_frame_that_is_offered_may_be_changed_afterwards() -> None:
    """It is made in place for the next scope: whatever is not sent yet must be a copy."""
    async with connected() as (outbox, client):
        expected = bytearray()
        for number in range(80):
            frame = bytearray(framed(b"%02d" % number + LARGE))
            expected += frame
            assert outbox.offer(frame, SCOPE)
            frame[:] = bytes(len(frame))
        assert await client.read(len(expected)) == expected


async def test_gathered_frames_leave_together_once_they_are_told_to() -> None:
    async with connected() as (outbox, client):
        outbox.gather()
        frame = bytearray(framed(b"one"))
        assert outbox.offer(frame, SCOPE)
        frame[:] = framed(b"two")
        assert outbox.offer(frame, SCOPE)
        assert not client.has_something()
        outbox.send_gathered()
        assert client.has_something()
        assert outbox.offer(framed(b"later"), SCOPE)
        expected = framed(b"one") + framed(b"two") + framed(b"later")
        assert await client.read(len(expected)) == expected


async def test_what_must_not_be_lost_does_not_overtake_what_is_gathered() -> None:
    async with connected() as (outbox, client):
        outbox.gather()
        assert outbox.offer(framed(b"one"), SCOPE)
        outbox.deliver(b"two")
        assert outbox.offer(framed(b"three"), SCOPE)
        outbox.send_gathered()
        expected = framed(b"one") + framed(b"two") + framed(b"three")
        assert await client.read(len(expected)) == expected


async def test_no_more_is_gathered_than_may_wait_in_a_transport() -> None:
    async with connected() as (outbox, client):
        outbox.gather()
        frames = [framed(LARGE)] * (MAX_BUFFERED // len(LARGE) + 1)
        for frame in frames:
            assert not client.has_something()
            assert outbox.offer(frame, SCOPE)
        assert client.has_something()
        assert outbox.offer(framed(b"more"), SCOPE)
        outbox.send_gathered()
        expected = b"".join(frames) + framed(b"more")
        assert await client.read(len(expected)) == expected


async def test_a_client_that_is_behind_gets_what_is_gathered_after_what_waits() -> None:
    async with connected() as (outbox, client):
        frames = [framed(b"%d" % number + LARGE) for number in range(20)]
        for frame in frames[:-1]:
            assert outbox.offer(frame, SCOPE)
        outbox.gather()
        assert outbox.offer(frames[-1], SCOPE)
        outbox.send_gathered()
        assert await client.read(sum(map(len, frames))) == b"".join(frames)


async def test_what_is_gathered_when_the_outbox_closes_is_dropped() -> None:
    async with connected() as (outbox, client):
        outbox.gather()
        assert outbox.offer(framed(b"one"), SCOPE)
        outbox.close()
        outbox.send_gathered()
        outbox.offer(framed(b"two"), SCOPE)
        assert not client.has_something()


async def test_who_waits_for_room_does_not_wait_for_an_empty_queue() -> None:
    async with connected(send_buffer=4096) as (outbox, client):
        while outbox.has_room(1, 0):
            outbox.deliver(LARGE)
        for _ in range(20):
            outbox.deliver(LARGE)
        waiting = [asyncio.create_task(outbox.room()) for _ in range(2)]
        await asyncio.sleep(0)
        assert not any(task.done() for task in waiting)
        while not all(task.done() for task in waiting):
            await client.read(4096)
        assert outbox.queued_frames > 1


async def test_nobody_waits_for_room_in_an_outbox_that_is_closed() -> None:
    async with connected() as (outbox, _):
        while outbox.has_room(1, 0):
            outbox.deliver(LARGE)
        waiting = asyncio.create_task(outbox.room())
        await asyncio.sleep(0)
        outbox.close()
        async with asyncio.timeout(PATIENCE):
            await waiting
