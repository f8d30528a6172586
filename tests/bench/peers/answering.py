"""How a peer is spoken to: a question per line on standard input, an answer per line on standard output."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop

Answer = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]  # Any: each role has questions of its own


def serve(main: Callable[[Callable[[Answer], Awaitable[None]]], Awaitable[None]]) -> None:
    """Runs a peer: `main` gets a function that answers questions until there are no more."""

    async def run() -> None:
        await main(_answer_all)

    uvloop.run(run())


async def _answer_all(answer: Answer) -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        reply = json.dumps(await answer(json.loads(line)))
        await asyncio.to_thread(_print, reply)


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
