"""How cost and delay grow: with scopes, sessions, the size of messages, and the number of gateways."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import reduce
from operator import add

from tests.bench.audience import Audience, audience, possible, subscription
from tests.bench.cores import apart
from tests.bench.fanout import CALM_FRAMES, FRESH_SECONDS
from tests.bench.figures import columns
from tests.bench.ground import Gateway, Ground
from tests.bench.pacing import paced
from tests.bench.plots import Line, Panel, drawn, short
from tests.bench.process import ROOT, Program
from tests.bench.writing import CONTENT_BYTES, TimedWriter, seed

FOLDER = ROOT / "docs" / "performance"

SCOPES = (100, 300, 1_000, 3_000, 10_000)
SESSIONS = (10, 100, 1_000, 10_000)
SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
GATEWAYS = (1, 2, 3)

SCOPES_OF_SIZES = 20
SCOPES_OF_GATEWAYS = 3_000
SESSIONS_RATE = 200.0
MOST_BYTES = 20e6
"""Bytes a second of a gateway's frames: largest messages are rare."""

MOST_RATE = 20.0
"""Changes a second of one session: few enough that each leaves by itself."""

MOST_CONNECTIONS = 1_000
"""Connections that share the scopes of very many sessions."""

SECONDS = 4.0

Place = Callable[[Program], None]


@dataclass(frozen=True, slots=True)
class Load:
    """What is written and who follows: one scope on each of `sessions` in turn, `scopes` of them, shared by the
    gateways. `rate` in commits a second over all sessions, each a message of `size` bytes.
    """

    sessions: int
    scopes: int
    size: int
    rate: float
    connections: int


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured at one place of a curve. `flaws`: frames that a client would have to repair."""

    at: int
    frames_per_second: float
    megabytes_per_second: float
    median: float
    tail: float
    flaws: int


@dataclass(frozen=True, slots=True)
class Curve:
    """One quantity that grows. `load` gives what is done at a place; `gateways` how many serve it."""

    name: str
    label: str
    places: Sequence[int]
    load: Callable[[int], Load]
    gateways: Callable[[int], int] = lambda _: 1


def _of_scopes(scopes: int) -> Load:
    return Load(1, scopes, CONTENT_BYTES, _calm(CALM_FRAMES / scopes), scopes)


def _of_sessions(sessions: int) -> Load:
    return Load(sessions, sessions, CONTENT_BYTES, SESSIONS_RATE, min(sessions, MOST_CONNECTIONS))


def _of_sizes(size: int) -> Load:
    return Load(1, SCOPES_OF_SIZES, size, _calm(MOST_BYTES / size / SCOPES_OF_SIZES), SCOPES_OF_SIZES)


def _of_gateways(_: int) -> Load:
    return Load(1, SCOPES_OF_GATEWAYS, CONTENT_BYTES, _calm(CALM_FRAMES / SCOPES_OF_GATEWAYS), SCOPES_OF_GATEWAYS)


def _calm(rate: float) -> float:
    return min(MOST_RATE, rate)


CURVES = (
    Curve("scopes", "scopes of one session", SCOPES, _of_scopes),
    Curve("sessions", "sessions, one scope each", SESSIONS, _of_sessions),
    Curve("sizes", "bytes of a message", SIZES, _of_sizes),
    Curve("gateways", "gateways", GATEWAYS, _of_gateways, lambda count: count),
)


async def measure(ground: Ground) -> None:
    """Measures all curves, writes their plots and prints their tables."""
    await ground.serve()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for curve in CURVES:
        with apart() as on_its_own_core:
            rows = [await _row(ground, curve, at, on_its_own_core) for at in curve.places]
        plot = drawn(_panels(curve, rows))
        await asyncio.to_thread((FOLDER / f"{curve.name}.svg").write_text, plot)
        print(f"\n{_table(curve, rows)}")


async def _row(ground: Ground, curve: Curve, at: int, on_its_own_core: Place) -> Row:
    load, prefix = curve.load(at), f"{curve.name}-{at}"
    sessions = [f"{prefix}-{number}" for number in range(1, load.sessions + 1)]
    await seed(ground.pool, prefix, load.sessions, 1)
    writer = TimedWriter(ground.pool, [f"{session}-1" for session in sessions], load.size)
    async with AsyncExitStack() as stack:
        gateways = [await stack.enter_async_context(ground.gateway()) for _ in range(curve.gateways(at))]
        share = load.scopes // len(gateways)
        lines = [subscription(scope, sessions[scope % load.sessions], {}) for scope in range(share)]
        connections = possible(load.connections // len(gateways))
        crowds = []
        for gateway in gateways:
            on_its_own_core(gateway.program)
            crowds.append(await stack.enter_async_context(audience(ground, gateway.port, connections, lines)))
        await paced(load.rate, FRESH_SECONDS, writer.commit)
        return await _measured(at, gateways, crowds, paced(load.rate, SECONDS, writer.commit))


async def _measured(at: int, gateways: Sequence[Gateway], crowds: Sequence[Audience], work: Awaitable[object]) -> Row:
    before = [await crowd.heard_to_the_end() for crowd in crowds]
    for crowd in crowds:
        await crowd.delays(restart=True)
    processor = _processor(gateways)
    await work
    heard = reduce(add, [await crowd.heard_to_the_end() - then for crowd, then in zip(crowds, before, strict=True)])
    processor = _processor(gateways) - processor
    delays = [await crowd.delays() for crowd in crowds]
    return Row(
        at=at,
        frames_per_second=heard.frames / processor,
        megabytes_per_second=heard.size / processor / 1e6,
        # The gateways' shares are equal, and so is their weight.
        median=sum(each.median for each in delays) / len(delays),
        tail=max(each.tail for each in delays),
        flaws=heard.flaws,
    )


def _processor(gateways: Sequence[Gateway]) -> float:
    return sum(gateway.program.cpu_seconds() for gateway in gateways)


def _panels(curve: Curve, rows: Sequence[Row]) -> Sequence[Panel]:
    rate = Line("frames", [(row.at, row.frames_per_second) for row in rows])
    median = Line("median", [(row.at, row.median) for row in rows])
    tail = Line("99th percentile", [(row.at, row.tail) for row in rows])
    return (
        Panel("Frames for a second of processor", curve.label, "frames/s", [rate]),
        Panel("Statement sent → frame at the client", curve.label, "ms", [median, tail]),
    )


def _table(curve: Curve, rows: Sequence[Row]) -> str:
    headings = (curve.label, "frames per second of processor", "MB per second of processor", "p50", "p99", "to repair")
    return columns(
        headings,
        [
            (
                short(row.at),
                f"{row.frames_per_second:,.0f}",
                f"{row.megabytes_per_second:,.0f}",
                f"{row.median:.2f} ms",
                f"{row.tail:.2f} ms",
                str(row.flaws),
            )
            for row in rows
        ],
    )
