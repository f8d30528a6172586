"""Carries a plan out on the running cluster, and says how it went."""

import asyncio
import random
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import count

from client.writers import Writers
from deploy.local.ports import Ports
from tests.convergence.cluster import Cluster
from tests.convergence.faults import Blow, strike
from tests.convergence.followers import Followers
from tests.convergence.network import CALM, Network
from tests.convergence.plans import Plan, Round
from tests.convergence.statements import Place, Writer

COMMAND_ATTEMPTS = 3

WITHOUT_SAMPLES = {"triggers off"}
"""Faults after which one revision names two contents, until the tracker has minted."""

_places = count(1)


@dataclass(slots=True)
class Report:
    """`arrivals`: for each round, the seconds from its end until every scope equalled the source."""

    arrivals: list[float] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    totals: Counter[str] = field(default_factory=Counter)
    longest_behind: float = 0.0
    frames_sent: int = 0
    gaps_sent: int = 0
    seconds: float = 0.0

    def line(self) -> str:
        """The report for people."""
        arrivals = " ".join(f"{seconds:.1f}" for seconds in self.arrivals)
        parts = [f"{name} {number}" for name, number in (*self.totals.items(), *self.outcomes.items())]
        return (
            f"{self.seconds:.1f} s, arrived after {arrivals} s; longest behind {self.longest_behind:.1f} s; "
            f"gateways sent {self.frames_sent} frames, {self.gaps_sent} after a gap; {', '.join(parts)}"
        )


async def run(cluster: Cluster, ports: Ports, plan: Plan) -> Report:
    """Carries the plan out. Raises AssertionError when a scope does not arrive, or went through what must not be."""
    report, place, begun = Report(), Place(f"p{next(_places)}"), asyncio.get_running_loop().time()
    chance = random.Random(plan.seed)
    await place.make(cluster.pool)
    async with AsyncExitStack() as stack:
        network = await stack.enter_async_context(Network(cluster.gateway_urls(), ports, plan.seed))
        followers = await stack.enter_async_context(Followers(network, cluster.pool, place))
        await followers.arrive()
        for each in plan.rounds:
            before = followers.counters()
            network.weather = each.weather
            await _round(cluster, followers, place, each, chance)
            network.weather = CALM
            report.arrivals.append(await followers.arrive())
            followers.compare_samples()
            wrong = [*followers.wrong(), *network.ledger.violations]
            if each.undisturbed and not place.endangered:
                wrong += followers.repaired_without_need(before)
            assert not wrong, "\n".join(wrong[:20])
        report.outcomes, report.totals = place.outcomes, followers.totals()
        report.longest_behind = followers.longest_behind
        report.frames_sent, report.gaps_sent = network.ledger.frames, network.ledger.gaps
    report.seconds = asyncio.get_running_loop().time() - begun
    await cluster.pool.execute("DELETE FROM tasks WHERE id = ANY ($1)", list(place.tasks))
    return report


async def _round(cluster: Cluster, followers: Followers, place: Place, plan: Round, chance: random.Random) -> None:
    written, struck, done = asyncio.Event(), asyncio.Event(), 0
    total = sum(map(len, plan.writers))

    def step_done() -> None:
        nonlocal done
        done += 1
        if done >= min(plan.struck_after, total):
            struck.set()

    if plan.struck_after == 0:
        struck.set()

    async def fault() -> None:
        await struck.wait()
        if plan.fault:
            await strike(plan.fault, Blow(cluster, place, chance, written))

    async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        striking = tasks.create_task(fault())
        if plan.fault not in WITHOUT_SAMPLES:
            tasks.create_task(followers.sample(written))
        writing = []
        for steps in plan.writers:
            url = chance.choice(cluster.gateway_urls())
            commands = await stack.enter_async_context(Writers(url, attempts=COMMAND_ATTEMPTS))
            writer = Writer(cluster.postgres.url, commands, place)
            writing.append(tasks.create_task(writer.run(steps, step_done)))
        await asyncio.gather(*writing)
        written.set()
        await striking
