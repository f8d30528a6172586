"""The programs that the manifests start, with the settings that the manifests give them."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import asyncpg
import pytest_asyncio

from deploy.checks.kubernetes.environment import POD_ADDRESS, environment_of
from deploy.checks.kubernetes.manifests import BASE, Part, container, read
from deploy.checks.kubernetes.pods import PROBES
from services.revision.schema.migrate import status
from tests.support.stack import ROOT, Name, Stack
from tests.support.waiting import eventually

SERVICES: tuple[Name, ...] = ("revision", "reader", "gateway")

# What a test has elsewhere than a pod does.
OWN = {"KANDEV_DATABASE_URL", "KANDEV_REDIS_URL", "KANDEV_PORT", "KANDEV_METRICS_PORT", "KANDEV_CACHE_DIR"}

MANIFESTS = read(BASE)


def workload(kind: str, name: str) -> Part:
    found = MANIFESTS.named(kind, name)
    assert found is not None
    return found


@pytest_asyncio.fixture
async def stack(database_url: str, redis_url: str, tmp_path: Path) -> AsyncIterator[Stack]:
    """The three services as processes, each with the settings of its pods."""
    async with Stack(database_url, redis_url, cache_dir=tmp_path / "plugins") as stack:
        for name in SERVICES:
            given = environment_of(workload("Deployment", name), MANIFESTS)
            settings = {
                variable.removeprefix("KANDEV_").lower(): value
                for variable, value in given.items()
                if variable.startswith("KANDEV_") and variable not in OWN
            }
            await stack.start(name, process=True, **settings)
        yield stack


async def asked(stack: Stack, url: str, host: str) -> tuple[int, object]:
    """What is answered to whoever names the process like this; 0 while nothing listens."""
    try:
        async with stack.http.get(url, headers={"Host": host}) as response:
            return response.status, await response.json()
    except aiohttp.ClientConnectionError:
        return 0, None


async def test_each_probe_is_answered_by_the_pods_address(stack: Stack) -> None:
    for name in SERVICES:
        port = stack.metrics_of(name)
        for probe, healthy in zip(PROBES, ("alive", "alive", "ready"), strict=True):
            request = container(workload("Deployment", name))[probe]["httpGet"]
            assert set(request) == {"path", "port"}, "it names the pod by its address, and sends no headers of its own"

            async def answer(url: str = f"http://127.0.0.1:{port}{request['path']}") -> tuple[int, object]:
                return await asked(stack, url, f"{POD_ADDRESS}:{port}")  # noqa: B023 - it is asked within this round

            await eventually(answer, lambda found: found == (200, {"status": healthy}))  # noqa: B023


async def test_the_public_port_serves_the_public_name_and_no_other(stack: Stack) -> None:
    await stack.ready("gateway")
    ready = f"{stack.url}/ready"
    assert (await asked(stack, ready, "conversation.example.com"))[0] == 200
    assert (await asked(stack, ready, "elsewhere.example.com"))[0] == 403


async def test_the_metric_that_the_autoscaler_follows_is_told_by_the_pods_address(stack: Stack) -> None:
    await stack.ready("gateway")
    scaler = workload("HorizontalPodAutoscaler", "gateway")
    port = stack.metrics_of("gateway")
    headers = {"Host": f"{POD_ADDRESS}:{port}"}
    async with stack.http.get(f"http://127.0.0.1:{port}/metrics", headers=headers) as response:
        lines = (await response.text()).splitlines()
    assert f"{scaler['spec']['metrics'][0]['pods']['metric']['name']} 0.0" in lines


async def test_the_job_migrates_an_empty_database(empty_database_url: str) -> None:
    job = workload("Job", "migrate")
    environment = {**os.environ, **environment_of(job, MANIFESTS), "KANDEV_DATABASE_URL": empty_database_url}
    command = (sys.executable, "-m", "cli.main", *container(job)["args"])
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, env=environment)
    assert await process.wait() == 0
    connection = await asyncpg.connect(empty_database_url)
    try:
        found = await status(connection)
    finally:
        await connection.close()
    assert found.current == found.latest > 0
