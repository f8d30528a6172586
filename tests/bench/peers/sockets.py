"""A bare aiohttp server: ready frames to WebSocket clients and an echo of theirs, and ready bodies over HTTP."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import WSMsgType, web

from services.gateway.websocket.framing import framed
from tests.bench.pacing import paced
from tests.bench.peers.answering import Answer, serve


async def main(answer_all: Callable[[Answer], Awaitable[None]]) -> None:
    """Listens on the port that is the first argument; bodies are of as many bytes as the second says."""
    transports: list[asyncio.Transport] = []
    body = b"x" * int(sys.argv[2])

    async def socket(request: web.Request) -> web.WebSocketResponse:
        response = web.WebSocketResponse(compress=False)
        await response.prepare(request)
        transport = request.transport
        assert transport is not None
        transports.append(transport)
        async for message in response:
            assert message.type is WSMsgType.TEXT
            await response.send_str(message.data)
        transports.remove(transport)
        return response

    async def page(_: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    async def answer(question: dict[str, Any]) -> dict[str, Any]:
        filling, each = b"x" * question["size"], min(question["each"], len(transports))

        async def write(number: int) -> None:
            frame = framed(b'{"at:%d":"%b"}' % (time.monotonic_ns(), filling))
            for place in range(each):
                transports[(number * each + place) % len(transports)].write(frame)

        return {"written": each * await paced(question["rate"], question["seconds"], write)}

    application = web.Application()
    application.add_routes([web.get("/ws", socket), web.get("/page", page)])
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", int(sys.argv[1])).start()
    try:
        await answer_all(answer)
    finally:
        await runner.cleanup()


if __name__ == "__main__":
    serve(main)
