"""Redis Streams from the other side: entries at a steady pace, and answers to whatever is asked."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import SecretStr
from redis.asyncio import Redis

from shared.broker.connection import connect
from shared.broker.cursor import last_id
from tests.bench.bare_streams import read_after
from tests.bench.pacing import paced
from tests.bench.peers.answering import Answer, serve

PACED = "bench:paced:{}"
QUESTIONS = "bench:questions"
ANSWERS = "bench:answers"


async def main(answer_all: Callable[[Answer], Awaitable[None]]) -> None:
    """Uses the Redis whose address is the first argument; answers are of as many bytes as the second says."""
    url = SecretStr(sys.argv[1])
    writer, echo = connect(url), connect(url)
    echoing = asyncio.create_task(_echo(echo, b"x" * int(sys.argv[2])))

    async def answer(question: dict[str, Any]) -> dict[str, Any]:
        payload = "x" * question["size"]

        async def write(number: int) -> None:
            fields = {"s": "session", "k": "change", "t": 1, "q": number, "r": payload, "at": time.monotonic_ns()}
            await writer.xadd(PACED.format(number % question["streams"]), fields, maxlen=1000)  # type: ignore[arg-type] # redis-py's parameter is an invariant dict

        return {"written": await paced(question["rate"], question["seconds"], write)}

    try:
        await answer_all(answer)
    finally:
        echoing.cancel()
        await asyncio.wait([echoing])
        await writer.aclose()
        await echo.aclose()


async def _echo(client: Redis, body: bytes) -> None:
    position = await last_id(client, QUESTIONS)
    while True:
        for _, entries in await read_after(client, {QUESTIONS: position}, 256):
            pipeline = client.pipeline(transaction=False)
            for entry_id, fields in entries:
                position = entry_id
                pipeline.xadd(ANSWERS, {"i": fields[b"i"], "b": body}, maxlen=256)
            await pipeline.execute()


if __name__ == "__main__":
    serve(main)
