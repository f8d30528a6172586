"""Many WebSocket clients that count what they get: the load of a fan-out, off the process that is measured."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp

from shared.contracts.wire import SUBSCRIBE
from tests.bench.peers.answering import Answer, serve


async def main(answer_all: Callable[[Answer], Awaitable[None]]) -> None:
    """Opens as many connections as the second argument says to the server whose address is the first; where a third
    names a session, each follows it.
    """
    url, count, session_id = sys.argv[1], int(sys.argv[2]), (sys.argv[3] if len(sys.argv) > 3 else "")
    frames = 0

    async def read(socket: aiohttp.ClientWebSocketResponse) -> None:
        nonlocal frames
        async for _ in socket:
            frames += 1

    async def answer(_: dict[str, Any]) -> dict[str, Any]:
        return {"frames": frames}

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        sockets = [await http.ws_connect(url, compress=0, max_msg_size=0) for _ in range(count)]
        for number, socket in enumerate(sockets):
            if session_id:
                payload = {"session_id": session_id, "scope_id": f"audience-{number}", "consumer_kind": "core"}
                await socket.send_json({"id": "1", "type": "request", "action": SUBSCRIBE, "payload": payload})
                reply = await socket.receive_json()
                assert reply["payload"]["success"], reply
        readers = [asyncio.create_task(read(socket)) for socket in sockets]
        await answer_all(answer)
        for reader in readers:
            reader.cancel()
        await asyncio.wait(readers)


if __name__ == "__main__":
    serve(main)
