"""Replacing every process, one after the other, under writers and followers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from client.comparison import Outcome, compare
from client.connection import Connection
from client.follower import Follower
from tests.integration.draining.balancer import Balancer
from tests.support.stack import Name, Stack
from tests.support.waiting import eventually

SERVICES: tuple[Name, ...] = ("gateway", "reader", "revision")
CLIENTS = 12
SESSIONS = ("s0", "s1", "s2")


@asynccontextmanager
async def writing(stack: Stack) -> AsyncIterator[None]:
    """One message after the other within the block, in all sessions."""

    async def write() -> None:
        number = 0
        while True:
            number += 1
            for session in SESSIONS:
                await stack.add(session, f"{session}-{number}", content="text")
            await asyncio.sleep(0.01)

    task = asyncio.create_task(write())
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_every_process_is_replaced_and_nobody_notices(database_url: str, redis_url: str) -> None:
    """Followers through two gateways end equal to the source, with one repair for each gateway that they lost at most,
    and without a gap: what they missed, they were told or read when they came back.
    """
    async with Stack(database_url, redis_url) as stack, AsyncExitStack() as following:
        for session in SESSIONS:
            await stack.session(session)
        for service in reversed(SERVICES):
            for name in (service, f"{service}2"):
                await stack.start(service, name=name, process=True, drain_seconds=1)
        await stack.tracked()
        for service in SERVICES:
            for name in (service, f"{service}2"):
                await stack.ready(name)
        urls = [stack.url_of(name) for name in ("gateway", "gateway2")]
        balancer = await following.enter_async_context(Balancer(urls))
        followers: list[tuple[Connection, Follower]] = []
        for number in range(CLIENTS):
            connection = await following.enter_async_context(Connection(balancer.url))
            follower = Follower(connection, SESSIONS[number % len(SESSIONS)], everything=True)
            followers.append((connection, await following.enter_async_context(follower)))
        await live(followers)
        epoch = await stack.pool.fetchval("SELECT epoch FROM conversation.epoch")
        async with writing(stack):
            for service in SERVICES:
                for name in (service, f"{service}2"):
                    before = [follower.counters.repairs for _, follower in followers]
                    await stack.stop(name)
                    await stack.start(service, name=name, process=True, drain_seconds=1)
                    await stack.ready(name)
                    await live(followers)
                    after = [follower.counters.repairs for _, follower in followers]
                    most = 1 if service == "gateway" else 0
                    assert all(late - early <= most for early, late in zip(before, after, strict=True)), name
        for connection, follower in followers:
            assert (await compare(connection, follower, 45)).outcome is Outcome.EQUAL
        assert [follower.counters.gaps for _, follower in followers] == [0] * CLIENTS
        assert await stack.pool.fetchval("SELECT epoch FROM conversation.epoch") == epoch


async def live(followers: list[tuple[Connection, Follower]]) -> None:
    for _, follower in followers:
        await follower.wait_until(lambda state: state.live)


async def test_a_standby_leads_once_the_leader_has_drained(database_url: str, redis_url: str) -> None:
    term = "SELECT last_value FROM conversation.tracker_term"
    async with Stack(database_url, redis_url) as stack:
        await stack.start("revision", process=True)
        await stack.tracked()
        led = await stack.pool.fetchval(term)
        await stack.start("revision", name="standby", process=True)
        await stack.ready("standby")
        await stack.stop("revision")
        await eventually(lambda: stack.pool.fetchval(term), lambda found: found > led)
