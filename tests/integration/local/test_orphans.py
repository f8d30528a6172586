"""What tests start ends with the test process, even one that is killed and so clears nothing up."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from deploy.local.ports import Ports
from tests.support.programs import alive
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[3]

PARENT = """
import asyncio, os, sys
from pathlib import Path
from tests.convergence.cluster import Replica
from tests.integration.cli.command import started

ADDRESSES = {"KANDEV_DATABASE_URL": "postgresql://127.0.0.1:1/none", "KANDEV_REDIS_URL": "redis://127.0.0.1:1/0"}

async def replica(folder, port, metrics):
    replica = Replica("gateway", folder / "log", {**os.environ, **ADDRESSES}, port, metrics)
    await replica.start()
    return replica.pid

async def command(folder, port, metrics):
    return (await started("run", "reader", KANDEV_METRICS_PORT=str(metrics), **ADDRESSES)).pid

async def main(kind, folder, port, metrics):
    print(await {"replica": replica, "command": command}[kind](Path(folder), int(port), int(metrics)), flush=True)
    await asyncio.Event().wait()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("kind", ["replica", "command"])
async def test_a_process_does_not_outlive_the_test_that_started_it(tmp_path: Path, ports: Ports, kind: str) -> None:
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PARENT, kind, str(tmp_path), str(ports.private()), str(ports.private())),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert parent.stdout is not None
    started = int(await parent.stdout.readline())
    try:
        assert alive(started)
        parent.kill()
        await parent.wait()
        await eventually(lambda: asyncio.sleep(0, alive(started)), lambda left: not left)
    finally:
        if alive(started):
            os.kill(started, signal.SIGKILL)
