"""One change to very many clients: frames for a second of the server's processor, beside servers that do nothing but
write ready frames.
"""

import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import reduce
from operator import add

from tests.bench import nats
from tests.bench.audience import Audience, Filter, Heard, audience, possible, subscription
from tests.bench.cores import LoadCores, apart
from tests.bench.figures import Figure, Target
from tests.bench.ground import Ground
from tests.bench.native import Unavailable, compiled, leave_out, node_server
from tests.bench.pacing import paced
from tests.bench.process import AnsweringProgram, Program
from tests.bench.writing import CONTENT_BYTES, Writer, seed

SCOPES: Mapping[int, Sequence[int]] = {1000: (1,), 5000: (1, 4)}
"""How many scopes, and how many of them share a connection: one, or four as in a browser with a transcript and some
panels. Bare servers have a connection for each.
"""

ROUNDS = 2

CALM_FRAMES = 20_000.0
"""Frames a second while one change comes at a time: a part of what the servers can do, so that nothing queues up."""

STREAMING_RATE = 300.0
"""Commits a second in one session: far more than leave one by one."""

FRESH_SECONDS = 1.5
"""Before anything is counted: nothing is joined in a scope's first second, and compilers get warm."""

VIEWS: Sequence[Filter] = (
    {},
    {"authors": ["agent"]},
    {"task_id": "bench"},
    {"authors": ["user", "agent"]},
    {"task_id": "bench", "authors": ["agent"]},
    {"authors": ["user"]},
)
"""Filters, in turn over the scopes. The last one selects nothing of what an agent writes: its scopes get coverage."""

Placing = Callable[[Program], None]


@dataclass(frozen=True, slots=True)
class Spent:
    """What an audience heard, and the seconds of processor that its server took for it."""

    heard: Heard
    seconds: float

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.heard + other.heard, self.seconds + other.seconds)


@dataclass
class Load:
    """The busiest that the side of the load was: near 1, the figures say more about it than about the servers."""

    clients: float = 0.0
    cores: float = 0.0

    def figures(self) -> Sequence[Figure]:
        """Both as lines of the table."""
        most = Target("at most", 80)
        return (
            Figure("- busiest process of clients, of its core", 100 * self.clients, "%", target=most),
            Figure("- busiest core of the load, with all that it does", 100 * self.cores, "%", target=most),
        )


@dataclass
class Bare:
    """A server that writes ready frames, with its clients, and what it took in the present case.

    `tick` makes it write: frames a second to each client, for so many seconds, of so many bytes. `joins`: it may put
    several messages into one frame when they come quickly, which says nothing of the cost of frames.
    """

    name: str
    target: Target | None
    program: Program
    tick: Callable[[float, float, int], Awaitable[object]]
    clients: Audience
    joins: bool = False
    taken: list[Spent] = field(default_factory=list)


async def measure(ground: Ground, seconds: float, *, all_peers: bool) -> Sequence[Figure]:
    """The gateway and the bare servers in turn, with as many clients each."""
    await ground.serve()
    figures: list[Figure] = []
    load = Load()
    with apart() as on_its_own_core:
        on_its_own_core(ground.services["gateway"])
        for scopes, sharing in SCOPES.items():
            async with AsyncExitStack() as stack:
                bare: list[Bare] = []
                async for each in _bare_servers(stack, ground, scopes, all_peers=all_peers):
                    on_its_own_core(each.program)
                    bare.append(each)
                for shared in sharing:
                    figures += await _in_turn(ground, scopes, seconds, bare, load, shared=shared)
    return (*figures, *load.figures())


async def _in_turn(
    ground: Ground, scopes: int, seconds: float, bare: Sequence[Bare], load: Load, *, shared: int
) -> Sequence[Figure]:
    gateway, crowd = ground.services["gateway"], f"crowd-{scopes}-{shared}"
    await seed(ground.pool, crowd, 1, 1)
    session, message = f"{crowd}-1", f"{crowd}-1-1"
    writer = Writer(ground.pool, [message])
    lines = [subscription(scope, session, VIEWS[scope % len(VIEWS)]) for scope in range(scopes)]
    calm = CALM_FRAMES / scopes
    figures: list[Figure] = []
    name = f"{scopes:,} scopes" if shared == 1 else f"{scopes:,} scopes, {shared} on each connection"
    async with audience(ground, ground.port, possible(scopes // shared), lines) as followers:
        await paced(calm, FRESH_SECONDS, writer.commit)
        for each in bare:
            await each.tick(calm, FRESH_SECONDS, CONTENT_BYTES)
        for case, rate in (("one change at a time", calm), (f"{STREAMING_RATE:g} commits/s", STREAMING_RATE)):
            beside = [each for each in bare if rate == calm or not each.joins]
            product: list[Spent] = []
            for _ in range(ROUNDS):
                found = await spent(followers, gateway, load, paced(rate, seconds, writer.commit))
                product.append(found)
                size, ticks = found.heard.size // found.heard.frames, found.heard.frames / scopes / seconds
                for each in beside:
                    work = each.tick(ticks, seconds, size)
                    each.taken.append(await spent(each.clients, each.program, load, work))
            figures += _figures(f"{name}, {case}", reduce(add, product), beside, joined=rate > calm)
            for each in beside:
                each.taken.clear()
    return figures


async def spent(clients: Audience, server: Program, load: Load, work: Awaitable[object]) -> Spent:
    """Does the work, and counts what came of it once nothing more comes."""
    before, processor, own = await clients.heard(), server.cpu_seconds(), clients.cpu_seconds()
    cores, began = LoadCores(), time.perf_counter()
    await work
    load.clients = max(load.clients, (clients.cpu_seconds() - own) / (time.perf_counter() - began))
    load.cores = max(load.cores, cores.busy())
    after = await clients.heard_to_the_end()
    return Spent(after - before, server.cpu_seconds() - processor)


def _figures(what: str, product: Spent, bare: Sequence[Bare], *, joined: bool) -> Sequence[Figure]:
    frames, changes = (count / product.seconds for count in (product.heard.frames, product.heard.changes))
    beside = {each.name: reduce(add, each.taken) for each in bare}
    rates = {name: taken.heard.frames / taken.seconds for name, taken in beside.items()}
    name = f"frames per second of processor, {what}"
    figures = [Figure(name, frames, "/s", rates[each.name], each.name, each.target) for each in bare] or [
        Figure(name, frames, "/s")
    ]
    if joined:
        figures.append(Figure(f"changes per second of processor, {what}, several in a frame", changes, "/s"))
    return (
        *figures,
        Figure(f"frames to repair, {what}", product.heard.flaws, "", target=Target("at most", 0)),
    )


async def _bare_servers(stack: AsyncExitStack, ground: Ground, wanted: int, *, all_peers: bool) -> AsyncIterator[Bare]:
    """Those that can run on this machine, each with its clients."""
    clients = possible(wanted)
    for name, (command, target) in COMMANDS.items():
        port = ground.ports.private()
        try:
            program = await stack.enter_async_context(AnsweringProgram(*await command(port)))
        except Unavailable as reason:
            leave_out(reason)
            continue
        tick = _ticking(program, clients)
        await tick(1, 0, 1)
        yield Bare(name, target, program, tick, await stack.enter_async_context(audience(ground, port, clients)))
    if all_peers:
        port = ground.ports.private()
        try:
            server, publisher = await stack.enter_async_context(nats.server(ground, port))
        except Unavailable as reason:
            leave_out(reason)
            return
        lines = nats.subscriptions(clients)
        subscribers = await stack.enter_async_context(audience(ground, port, clients, lines))
        yield Bare("nats-server", None, server, publisher.tick, subscribers, joins=True)


def _ticking(program: AnsweringProgram, clients: int) -> Callable[[float, float, int], Awaitable[object]]:
    return lambda rate, seconds, size: program.ask(rate=rate, seconds=seconds, size=size, each=clients)


async def _node(port: int) -> Sequence[str]:
    return (*await node_server(), str(port))


async def _floor(port: int) -> Sequence[str]:
    return (await compiled("floor"), str(port))


async def _aiohttp(port: int) -> Sequence[str]:
    return (sys.executable, "-m", "tests.bench.peers.sockets", str(port), "1")


COMMANDS: Mapping[str, tuple[Callable[[int], Awaitable[Sequence[str]]], Target | None]] = {
    "Node `ws`": (_node, Target("at least", 1.2)),
    "C, epoll": (_floor, Target("at least", 0.75)),
    "bare aiohttp": (_aiohttp, None),
}
"""The bare servers by name: what starts one on a port, and what the gateway is to reach beside it."""
