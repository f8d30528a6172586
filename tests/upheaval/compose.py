"""An installation that Docker Compose runs: each service is one or more containers."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from tests.support.waiting import eventually
from tests.upheaval.installation import Broken
from tests.upheaval.plan import Upheaval, plan

SERVICES = ("gateway", "reader", "revision", "redis", "postgres", "balancer")
UPGRADED = ("revision", "reader", "gateway")
"""In the order in which an upgrade replaces them."""

ROOT = Path(__file__).parents[2]

READY_SECONDS = 600.0
"""Longest wait for containers to be ready again, on a machine that has other things to do."""

STATE = "{{.State.Status}} {{if .State.Health}}{{.State.Health.Status}}{{end}}"
READY = frozenset({"running", "running healthy"})
"""States of a container, without and with a check of its health."""

FLUSH = 'REDISCLI_AUTH="${KANDEV_REDIS_PASSWORD:-$(cat "$KANDEV_REDIS_PASSWORD_FILE")}" redis-cli FLUSHALL'
"""Run in the container of Redis, which knows its password."""


class ComposeInstallation:
    """The project `project` of Docker Compose, behind its load balancer at `url`."""

    def __init__(self, project: str, url: str) -> None:
        self.upheavals: Sequence[Upheaval] = plan(SERVICES, UPGRADED)
        self.urls: Sequence[str] = (url,)
        self._project = project
        self._compose = ("docker", "compose", "-p", project)

    async def hit(self, upheaval: Upheaval) -> None:
        """Lets it happen; returns once every container of the service is ready again. Raises `Broken`."""
        containers = await self._containers(upheaval.service)
        match upheaval.manner:
            case "restart":
                await _output(*self._compose, "restart", upheaval.service)
            case "kill":
                await _output(*self._compose, "kill", "-s", "KILL", upheaval.service)
                # Docker counts this kill as the wish of an operator, so that no restart policy acts on it.
                await _output("docker", "start", *containers)
            case "flush":
                await _output(*self._compose, "exec", "-T", upheaval.service, "sh", "-c", FLUSH)
            case "roll":
                for container in containers:
                    await _output("docker", "restart", container)
                    await _ready(container)
            case "upgrade":
                # It replaces containers, and waits for the new ones.
                await _output("sh", "deploy/compose/roll.sh", upheaval.service, COMPOSE_PROJECT_NAME=self._project)
                return
        await _ready(*containers)

    async def _containers(self, service: str) -> list[str]:
        found = (await _output(*self._compose, "ps", "--quiet", service)).split()
        if not found:
            raise Broken(f"no container of the service {service} runs")
        return found


async def _ready(*containers: str) -> None:
    async def states() -> set[str]:
        return {line.strip() for line in (await _output("docker", "inspect", "-f", STATE, *containers)).splitlines()}

    try:
        await eventually(states, lambda found: found <= READY, READY_SECONDS)
    except AssertionError as error:
        raise Broken(str(error)) from error


async def _output(*command: str, **environment: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        stdin=asyncio.subprocess.DEVNULL,
    )
    printed, complaint = await process.communicate()
    if process.returncode != 0:
        raise Broken(f"{' '.join(command)}: {complaint.decode(errors='replace').strip()[-500:]}")
    return printed.decode()
