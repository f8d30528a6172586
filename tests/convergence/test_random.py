"""Whatever writers, networks and processes do, every scope ends equal to the source.

Plans are drawn by fixed seeds here; `python -m tests.convergence.soak` goes on for as long as one likes.
"""

import pytest

from deploy.local.ports import Ports
from tests.convergence.cluster import Cluster
from tests.convergence.faults import FAULTS
from tests.convergence.kept import KEPT
from tests.convergence.plans import quiet_plan, rough_plan
from tests.convergence.running import run


@pytest.mark.parametrize("seed", range(2))
async def test_undisturbed_scopes_follow_without_a_gap_or_a_repair(cluster: Cluster, ports: Ports, seed: int) -> None:
    print((await run(cluster, ports, quiet_plan(seed))).line())


@pytest.mark.parametrize("fault", ["", *FAULTS])
async def test_after_every_fault_every_scope_equals_the_source(cluster: Cluster, ports: Ports, fault: str) -> None:
    print((await run(cluster, ports, rough_plan(0, fault))).line())


@pytest.mark.parametrize(("seed", "fault"), KEPT)
async def test_a_plan_that_failed_once(cluster: Cluster, ports: Ports, seed: int, fault: str) -> None:
    print((await run(cluster, ports, rough_plan(seed, fault))).line())
