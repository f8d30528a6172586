"""Very many WebSocket clients, and what they heard."""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import astuple, dataclass
from itertools import count
from typing import Self

import orjson

from shared.contracts.wire import SUBSCRIBE
from tests.bench.ground import Ground
from tests.bench.native import compiled
from tests.bench.process import AnsweringProgram, raise_file_limit
from tests.support.waiting import eventually

OPENING_SECONDS = 240.0
"""How long all connections and scopes may take to open."""

QUIET_SECONDS = 0.25
"""Nothing more comes after this long without a frame: changes wait to be joined for less than half of it."""

SPARE_FILES = 200
"""Open files of a process besides its connections, generously."""

_files = count()

Filter = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Heard:
    """What came to an audience, or the difference of two such counts.

    `frames` that tell something new, their `size` in bytes, and the `changes` in them: revisions, summed over scopes.
    `checks` tell nothing new. `flaws`: what a client would have to repair, which are resets, frames that do not begin
    where their scope stood, and connections that broke.
    """

    frames: int
    size: int
    changes: int
    checks: int
    flaws: int

    def __add__(self, other: "Heard") -> "Heard":
        return Heard(*(one + another for one, another in zip(astuple(self), astuple(other), strict=True)))

    def __sub__(self, other: "Heard") -> "Heard":
        return Heard(*(one - another for one, another in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True, slots=True)
class Delays:
    """How long frames took that tell when they were made, in ms: the 50th and the 99th percentile."""

    median: float
    tail: float


class Audience(AnsweringProgram):
    """The clients of one server: a process of its own (`peers/audience.c`)."""

    async def heard(self) -> Heard:
        """All that came so far."""
        answer = await self.ask()
        flaws = answer["resets"] + answer["gaps"] + answer["lost"]
        return Heard(answer["frames"], answer["bytes"], answer["changes"], answer["checks"], flaws)

    async def delays(self, *, restart: bool = False) -> Delays:
        """Those since the last time that they were restarted."""
        answer = await self.ask(restart=int(restart))
        return Delays(answer["p50"], answer["p99"])

    async def heard_to_the_end(self) -> Heard:
        """All that came, once nothing comes any more."""
        found = await self.heard()
        while True:
            await asyncio.sleep(QUIET_SECONDS)
            now = await self.heard()
            if now.frames == found.frames:
                return found
            found = now

    async def opened(self, lines: int) -> Self:
        """Waits until as many requests are answered. Raises RuntimeError when one was refused."""

        async def answers() -> tuple[int, int]:
            answer = await self.ask()
            return answer["replies"], answer["refused"]

        _, refused = await eventually(answers, lambda found: sum(found) >= lines, OPENING_SECONDS)
        if refused:
            raise RuntimeError(
                f"{refused} of {lines} subscriptions were refused; is a limit of the gateway in the way?"
            )
        return self


@asynccontextmanager
async def audience(ground: Ground, port: int, connections: int, lines: Sequence[bytes] = ()) -> AsyncIterator[Audience]:
    """So many connections to a port, once they are open and every line is answered; line N goes out on connection N
    modulo their number.
    """
    file = ground.folder / f"audience-{next(_files)}"
    file.write_bytes(b"".join(line + b"\n" for line in lines))
    arguments = (str(port), "/ws", str(connections), str(file))
    async with Audience(await compiled("audience"), *arguments) as clients:
        yield await clients.opened(len(lines))


def possible(wanted: int) -> int:
    """As many of the wanted connections as one process may have open; says so when these are fewer."""
    most = raise_file_limit() - SPARE_FILES
    if wanted > most:
        print(f"only {most:,} of {wanted:,} connections: raise the limit of open files (ulimit -n)", file=sys.stderr)
    return min(wanted, most)


def subscription(scope: int, session_id: str, view: Filter) -> bytes:
    """The request for a scope; its id is its number, by which the audience knows it."""
    payload = {"session_id": session_id, "scope_id": str(scope), "consumer_kind": "core", **view}
    return orjson.dumps({"id": "1", "type": "request", "action": SUBSCRIBE, "payload": payload})
