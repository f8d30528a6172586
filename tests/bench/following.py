"""What a following client notices of a busy session: whether it stays live, and whether it has to read."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack

from client.connection import Connection
from client.follower import Follower
from client.range import Filter, RowChange
from client.state import State
from shared.broker.cursor import last_id
from shared.contracts import streams
from tests.bench.bare_streams import follow
from tests.bench.figures import Figure, Target
from tests.bench.ground import Ground
from tests.bench.pacing import paced
from tests.bench.writing import Writer, seed
from tests.support.line import Line
from tests.support.waiting import eventually

RATES = (100.0, 300.0)
SECONDS = 5.0
UPDATES = 100

FOLLOWERS, CONNECTIONS = 50, 10

PROMPTS = Filter(authors=("user",))


async def prompts_only(ground: Ground) -> Sequence[Figure]:
    """Page reads while the agent's messages change and only prompts are followed."""
    await seed(ground.pool, "quiet", 1, 1)
    await ground.serve()
    writer = Writer(ground.pool, ["quiet-1-1"])
    async with Connection(ground.url) as connection, Follower(connection, "quiet-1", scope_filter=PROMPTS) as follower:
        before = await follower.wait_until(lambda state: state.live)
        applied, place = before.applied or 0, await last_id(ground.redis, streams.READS)
        # Watched as they come: what readers have taken is removed.
        requests: list[Mapping[bytes, bytes]] = []
        watching = asyncio.create_task(
            follow(ground.redis, {streams.READS: place}, lambda fields, _: requests.append(fields))
        )
        for number in range(UPDATES):
            await writer.commit(number)
        after = await follower.wait_until(lambda state: state.live and (state.applied or 0) >= applied + UPDATES)
        watching.cancel()
        await asyncio.wait([watching])
    pages = sum(any(b"_page" in value for value in fields.values()) for fields in requests)
    what = f"during {UPDATES} agent updates in a prompt-only scope"
    none = Target("at most", 0)
    return (
        Figure(f"pages asked for by the client {what}", after.counters.reads - before.counters.reads, "", target=none),
        Figure(f"pages asked of readers {what}", pages, "", target=none),
    )


class _LiveTime:
    """Adds up how long a scope was live."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._since = self._loop.time()
        self._live = True
        self._sum = 0.0

    def observe(self, state: State, _: tuple[RowChange, ...]) -> None:
        """The follower's observer."""
        now = self._loop.time()
        if self._live:
            self._sum += now - self._since
        self._since, self._live = now, state.live

    def share(self, began: float, state: State) -> float:
        """The share since `began`, a time of the event loop."""
        self.observe(state, ())
        return self._sum / (self._since - began)

    def restart(self) -> float:
        """Forgets what was before and returns the time."""
        self._since, self._sum = self._loop.time(), 0.0
        return self._since


def _reaching(revision: int) -> Callable[[State], bool]:
    return lambda state: state.live and (state.applied or 0) > revision


async def staying_live(ground: Ground) -> Sequence[Figure]:
    """Clients that begin to follow a busy session and go on for a few seconds, one of them on a line that is cut again
    as soon as it is live.
    """
    await seed(ground.pool, "busy", len(RATES), 20)
    await ground.serve()
    figures: list[Figure] = []
    for number, rate in enumerate(RATES, 1):
        figures += await _staying_live(ground, f"busy-{number}", rate)
    return figures


async def _staying_live(ground: Ground, session: str, rate: float) -> Sequence[Figure]:
    writer = Writer(ground.pool, [f"{session}-{message}" for message in range(1, 21)])
    writing = asyncio.create_task(paced(rate, SECONDS, writer.commit))
    await eventually(lambda: asyncio.sleep(0, bool(writer.committed)))
    async with AsyncExitStack() as stack:
        line = await stack.enter_async_context(Line.to(ground.url))
        connections = [await stack.enter_async_context(Connection(ground.url)) for _ in range(CONNECTIONS)]
        lives = [_LiveTime() for _ in range(FOLLOWERS - 1)]
        steady = [
            await stack.enter_async_context(Follower(connections[place % CONNECTIONS], session, observer=live.observe))
            for place, live in enumerate(lives)
        ]
        restless = await stack.enter_async_context(
            Follower(await stack.enter_async_context(Connection(line.url)), session)
        )
        everybody = (*steady, restless)
        before = [await follower.wait_until(lambda state: state.live) for follower in everybody]
        losing = asyncio.create_task(_losing(line, restless))
        began = [live.restart() for live in lives]
        done = await writing
        shares = [live.share(since, follower.state) for live, since, follower in zip(lives, began, steady, strict=True)]
        losing.cancel()
        await asyncio.wait([losing])
        line.mend()
        after = [await follower.wait_until(_reaching(done)) for follower in everybody]
    repairs = sum(late.counters.repairs - early.counters.repairs for early, late in zip(before, after, strict=True))
    what = f"at {rate:g} commits/s in one session"
    return (
        Figure(
            f"time live {what}, the least of {len(steady)} followers",
            100 * min(shares),
            "%",
            target=Target("at least", 100),
        ),
        Figure(f"repairs {what} of {FOLLOWERS} followers", repairs, "", target=Target("at most", 0)),
        Figure("- reconnects of one of them meanwhile", restless.counters.resumes, ""),
    )


async def _losing(line: Line, follower: Follower) -> None:
    """Cuts the line whenever the follower is live, until it is cancelled."""
    while True:
        line.cut()
        await follower.wait_until(lambda state: state.status == "disconnected")
        line.mend()
        await follower.wait_until(lambda state: state.live)
