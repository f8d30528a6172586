"""A follower that opens while one session changes without a pause is live at once, and stays so (G1, G5, C3)."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack

from client.connection import Connection
from client.follower import Follower
from client.range import Filter
from client.state import State
from deploy.local.ports import Ports
from tests.convergence.cluster import Cluster
from tests.convergence.network import Network
from tests.convergence.statements import Place

WRITERS = 4
LATER_FRAMES = 60
"""Change frames that each follower sees after the first rows: the writers go on for that long."""

ADD = """
INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content) VALUES ($1, $2, $3, $4, '')
"""
GROW = "UPDATE task_session_messages SET content = content || 'word ', task_id = $2 WHERE id = $1"

FILTERS = (Filter(), Filter(authors=("user",)), Filter(task_id="steady-t2"))


def _past(frames: int) -> Callable[[State], bool]:
    return lambda state: state.counters.frames > frames


async def test_steady_writes(cluster: Cluster, ports: Ports) -> None:
    place = Place("steady")
    await place.make(cluster.pool)
    session, enough = place.sessions[0], asyncio.Event()

    async def write(author: str) -> None:
        """A message that grows word by word, and moves in and out of a task while it does."""
        while not enough.is_set():
            message = place.new_id()
            await cluster.pool.execute(ADD, message, session, place.tasks[0], author)
            for number in range(20):
                await cluster.pool.execute(GROW, message, place.tasks[number % 3 == 0])

    async with AsyncExitStack() as stack:
        network = await stack.enter_async_context(Network(cluster.gateway_urls(), ports, 1))
        connection = await stack.enter_async_context(Connection(network.url))
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        for number in range(WRITERS):
            tasks.create_task(write(("user", "agent")[number % 2]))
        followers = []
        for chosen in FILTERS * 2:
            follower = Follower(connection, session, scope_filter=chosen, everything=True)
            followers.append(await stack.enter_async_context(follower))
            await follower.wait_until(lambda state: state.live)
        ends = [_past(follower.counters.frames + LATER_FRAMES) for follower in followers]
        for follower, end in zip(followers, ends, strict=True):
            await follower.wait_until(end)
        enough.set()
        for follower in followers:
            counters = follower.counters
            assert (counters.gaps, counters.repairs, counters.resets) == (0, 0, 0)
            assert follower.longest_behind == 0.0
        assert not network.ledger.violations
        assert network.ledger.gaps == 0
    await cluster.pool.execute("DELETE FROM tasks WHERE id = ANY ($1)", list(place.tasks))
