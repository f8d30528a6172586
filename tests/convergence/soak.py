"""Random runs for as long as one likes: `python -m tests.convergence.soak --minutes 10 --seed 7`.

Each fault comes in turn. A plan that fails is printed, and with --shrink made smaller for as long as what is left fails
too. Its seed belongs into `kept.py`.
"""

import asyncio
import time

import click

from deploy.local.ports import Ports
from tests.conftest import server_folder
from tests.convergence.cluster import Cluster
from tests.convergence.faults import FAULTS
from tests.convergence.plans import Plan, plans, rough_plan, smaller
from tests.convergence.running import run


@click.command()
@click.option("--minutes", type=float, default=10.0, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--fault", type=click.Choice(list(FAULTS)), help="This fault alone.")
@click.option("--shrink/--no-shrink", default=False, help="Make a plan that fails smaller.")
def soak(minutes: float, seed: int, fault: str | None, shrink: bool) -> None:
    """Run random plans; exit code 1 when one failed."""
    raise SystemExit(asyncio.run(_soak(minutes * 60, seed, fault, shrink)))


async def _soak(seconds: float, seed: int, fault: str | None, shrink: bool) -> bool:
    failed, until = 0, time.monotonic() + seconds
    drawn = plans(seed) if fault is None else (rough_plan(each, fault) for each in range(seed, seed + 10**6))
    with server_folder() as folder, Ports() as ports:
        async with Cluster(folder) as cluster:
            click.echo(f"logs: {folder}")
            for plan in drawn:
                if time.monotonic() > until:
                    break
                names = ", ".join(f"{each.fault or 'no fault'} in {each.weather}" for each in plan.rounds)
                click.echo(f"{time.strftime('%H:%M:%S')} seed {plan.seed}: {names}")
                if not await _holds(cluster, ports, plan):
                    failed += 1
                    click.echo(repr(await _smallest(cluster, ports, plan) if shrink else plan))
    click.echo(f"{failed} plans failed")
    return failed > 0


async def _holds(cluster: Cluster, ports: Ports, plan: Plan) -> bool:
    failed = False
    try:
        click.echo(f"    {(await run(cluster, ports, plan)).line()}")
    except* AssertionError as errors:
        failed = True
        click.echo(f"FAILED: {errors.exceptions}")
    if failed:
        await cluster.ready()
    return not failed


async def _smallest(cluster: Cluster, ports: Ports, plan: Plan) -> Plan:
    for candidate in smaller(plan):
        if not await _holds(cluster, ports, candidate):
            return await _smallest(cluster, ports, candidate)
    return plan


if __name__ == "__main__":
    soak()
