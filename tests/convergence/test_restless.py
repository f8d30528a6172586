"""Fifty followers of a session that changes without a pause, one of which reconnects all the time (G1, G5, G6)."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from itertools import count

from client.connection import Connection
from client.follower import Follower
from client.state import State
from tests.convergence.cluster import Cluster
from tests.convergence.statements import Place
from tests.support.line import Line

FOLLOWERS = 50
CONNECTIONS = 10
WRITERS = 3
RATE = 100.0
"""Commits a second of each writer, at most. Without a bound they would outrun those who have to tell of it, by more
than the second for which receipts are waited for.
"""
LOSSES = 12
FRAMES_BETWEEN = 5
"""Change frames that the restless one is told between two losses."""

ADD = """
INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content) VALUES ($1, $2, $3, 'agent', '')
"""
GROW = "UPDATE task_session_messages SET content = right(content, 2000) || 'word ' WHERE id = $1"


def told(frames: int) -> Callable[[State], bool]:
    """Whether a follower is live and was told so many frames."""
    return lambda state: state.live and state.counters.frames >= frames


async def test_nobody_repairs_and_all_but_one_are_live_throughout(cluster: Cluster) -> None:
    """The one is live again with each reply, from what the gateway remembers."""
    place = Place("restless")
    await place.make(cluster.pool)
    session, enough = place.sessions[0], asyncio.Event()

    async def write() -> None:
        message = place.new_id()
        await cluster.pool.execute(ADD, message, session, place.tasks[0])
        began = asyncio.get_running_loop().time()
        for number in count():
            if enough.is_set():
                return
            await cluster.pool.execute(GROW, message)
            await asyncio.sleep(began + number / RATE - asyncio.get_running_loop().time())

    async with AsyncExitStack() as stack:
        url = cluster.gateway_urls()[0]
        line = await stack.enter_async_context(Line.to(url))
        connections = [await stack.enter_async_context(Connection(url)) for _ in range(CONNECTIONS)]
        restless_connection = await stack.enter_async_context(Connection(line.url))
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        stack.callback(enough.set)
        for _ in range(WRITERS):
            tasks.create_task(write())
        quiet = [
            await stack.enter_async_context(Follower(connections[number % CONNECTIONS], session))
            for number in range(FOLLOWERS - 1)
        ]
        restless = await stack.enter_async_context(Follower(restless_connection, session))
        for follower in (*quiet, restless):
            await follower.wait_until(lambda state: state.live)
        for loss in range(LOSSES):
            frames = restless.counters.frames + FRAMES_BETWEEN
            await restless.wait_until(told(frames))
            line.cut()
            await restless.wait_until(lambda state: state.status == "disconnected")
            line.mend()
            await restless.wait_until(lambda state: state.live)
            assert restless.counters.resumes == loss + 1
        enough.set()
        reached = await cluster.pool.fetchval(
            "SELECT revision FROM conversation_session_revisions WHERE session_id = $1", session
        )
        for follower in (*quiet, restless):
            await follower.wait_until(lambda state: (state.applied or 0) >= reached)
            counters = follower.counters
            assert (counters.gaps, counters.repairs, counters.resets) == (0, 0, 0)
        assert {follower.longest_behind for follower in quiet} == {0.0}
        assert len({follower.rows() for follower in (*quiet, restless)}) == 1
    await cluster.pool.execute("DELETE FROM tasks WHERE id = ANY ($1)", list(place.tasks))
