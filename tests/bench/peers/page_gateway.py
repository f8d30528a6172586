"""The hops of a page of Host RPC at their least, on the gateway's side: gRPC to Redis and back, and nothing more."""

import asyncio
import secrets
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from pydantic import SecretStr

from shared.broker.connection import connect
from shared.broker.cursor import last_id
from tests.bench.bare_streams import follow
from tests.bench.peers.answering import Answer, serve

REQUESTS, REPLIES = "bench:page-requests", "bench:page-replies"

KEPT = 16
"""Entries of each stream: one call is under way at a time."""


async def main(answer_all: Callable[[Answer], Awaitable[None]]) -> None:
    """Serves on the port of the second argument, with the Redis of the first."""
    client = connect(SecretStr(sys.argv[1]))
    waiting: dict[bytes, asyncio.Future[bytes]] = {}

    def note(fields: Any, _: int) -> None:
        waiting.pop(fields[b"i"]).set_result(fields[b"b"])

    async def page(task: bytes, _: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        call = secrets.token_hex(12).encode()
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        waiting[call] = answer
        await client.xadd(REQUESTS, {"i": call, "t": task}, maxlen=KEPT, approximate=True)
        return await answer

    following = asyncio.create_task(follow(client, {REPLIES: await last_id(client, REPLIES)}, note))
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {"Page": grpc.unary_unary_rpc_method_handler(page)}
    server = grpc.aio.server(options=(("grpc.max_send_message_length", 17 << 20),))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench", handlers),))
    server.add_insecure_port(f"127.0.0.1:{sys.argv[2]}")
    await server.start()

    async def answer(_: dict[str, Any]) -> dict[str, Any]:
        return {}

    try:
        await answer_all(answer)
    finally:
        await server.stop(None)
        following.cancel()
        await client.aclose()


if __name__ == "__main__":
    serve(main)
