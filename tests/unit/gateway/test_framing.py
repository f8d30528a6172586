"""WebSocket framing, read by a client that others wrote."""

import pytest
from aiohttp import WSMsgType, web
from aiohttp.test_utils import TestClient, TestServer

from services.gateway.websocket.framing import closing_frame, framed, text_of


async def received(*payloads: bytes) -> list[str]:
    """What a client reads when these are written to its connection at once."""

    async def serve(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(compress=False)
        await socket.prepare(request)
        assert request.transport is not None
        request.transport.write(b"".join(map(framed, payloads)))
        await socket.receive()
        return socket

    application = web.Application()
    application.router.add_get("/", serve)
    async with TestClient(TestServer(application)) as client, client.ws_connect("/", max_msg_size=0) as socket:
        messages = [await socket.receive() for _ in payloads]
    assert {message.type for message in messages} == {WSMsgType.TEXT}
    return [message.data for message in messages]


@pytest.mark.parametrize("length", [0, 1, 125, 126, 127, 65535, 65536, 2_000_000])
async def test_every_length_class(length: int) -> None:
    assert await received(b"x" * length) == ["x" * length]


@pytest.mark.parametrize("length", [0, 1, 125, 126, 127, 65535, 65536])
def test_a_frames_text_is_a_copy(length: int) -> None:
    frame = bytearray(framed(b"x" * length))
    text = text_of(frame)
    frame[-1:] = b"?"
    assert text == b"x" * length


async def test_frames_follow_each_other() -> None:
    texts = ["one", "ü" * 100, "", "x" * 70_000, "last"]
    assert await received(*[text.encode() for text in texts]) == texts


async def test_a_closing_frame_says_why() -> None:
    async def serve(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(compress=False)
        await socket.prepare(request)
        assert request.transport is not None
        request.transport.write(closing_frame(4008, b"slow consumer"))
        await socket.receive()
        return socket

    application = web.Application()
    application.router.add_get("/", serve)
    async with TestClient(TestServer(application)) as client, client.ws_connect("/") as socket:
        message = await socket.receive()
    assert (message.type, message.data, message.extra) == (WSMsgType.CLOSE, 4008, "slow consumer")
