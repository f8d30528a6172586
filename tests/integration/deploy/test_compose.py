"""The compose stack: built, started, scaled and followed through its load balancer."""

import asyncio
import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from client.comparison import Outcome, compare
from client.connection import Connection
from client.follower import Follower
from deploy.local.ports import Ports

ROOT = Path(__file__).parents[3]
CLIENTS = 8
PLACEHOLDERS = {"KANDEV_DATABASE_PASSWORD": "change-me", "KANDEV_REDIS_PASSWORD": "change-me"}


@dataclass(frozen=True)
class Project:
    """One compose project, apart from any other on this engine."""

    name: str
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def environment(self, **more: str) -> dict[str, str]:
        """What the project is made with. Passwords hold what addresses would have to escape."""
        return {
            **os.environ,
            "COMPOSE_PROJECT_NAME": self.name,
            "KANDEV_IMAGE": f"{self.name}:local",
            "KANDEV_PORT": str(self.port),
            "KANDEV_DATABASE_PASSWORD": "p@ss:/w rd\"'\\",
            "KANDEV_REDIS_PASSWORD": "r@ss:/w rd\"'\\",
            "KANDEV_DRAIN_SECONDS": "1",
            **more,
        }

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs a command of the checkout on the project."""
        return subprocess.run(
            command, cwd=ROOT, env=self.environment(**environment), capture_output=True, text=True, check=False
        )

    def compose(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs `docker compose` with the project's files."""
        return self.run("docker", "compose", *arguments, **environment)

    def done(self, *arguments: str, **environment: str) -> str:
        """Like `compose`; fails with what it said where it fails."""
        ran = self.compose(*arguments, **environment)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout


@pytest.fixture(scope="module")
def project(ports: Ports) -> Iterator[Project]:
    """The stack, running with two of each service; nothing of it is left."""
    project = Project(f"kandev-test-{secrets.token_hex(4)}", ports.private())
    try:
        scale = [part for name in ("gateway", "reader", "revision") for part in ("--scale", f"{name}=2")]
        project.done("up", "--detach", "--build", "--wait", *scale)
        yield project
    finally:
        project.compose("down", "--volumes", "--timeout", "5")
        subprocess.run(["docker", "rmi", "--force", f"{project.name}:local"], capture_output=True, check=False)


async def write(session: aiohttp.ClientSession, path: str, body: dict[str, str]) -> None:
    async with session.post(f"/api/v1/{path}", json=body) as answer:
        assert answer.status == 200, await answer.text()


async def test_a_gateway_is_restarted_under_followers(project: Project) -> None:
    """Clients through the load balancer see what is written through it, before, meanwhile and afterwards."""
    async with aiohttp.ClientSession(project.url) as http:
        await write(http, "workspaces", {"id": "w", "name": "w"})
        await write(http, "tasks", {"id": "t", "workspace_id": "w", "title": "t"})
        await write(http, "task-sessions", {"id": "s", "task_id": "t"})
        async with AsyncExitStack() as following:
            followers = [await follower(following, project.url) for _ in range(CLIENTS)]
            first, _ = project.done("ps", "--quiet", "gateway").split()
            restarting = asyncio.create_task(
                asyncio.to_thread(subprocess.run, ["docker", "restart", first], check=True)
            )
            number = 0
            while not restarting.done():
                number += 1
                await write(http, "task-sessions/s/messages", {"id": f"m{number}", "author_type": "user"})
            await restarting
            for connection, each in followers:
                assert (await compare(connection, each, 45)).outcome is Outcome.EQUAL
                assert (each.counters.gaps, each.counters.repairs) in {(0, 0), (0, 1)}


async def follower(following: AsyncExitStack, url: str) -> tuple[Connection, Follower]:
    """One that follows the session on a connection of its own."""
    connection = await following.enter_async_context(Connection(url))
    return connection, await following.enter_async_context(Follower(connection, "s", everything=True))


@pytest.mark.parametrize("service", ["migrate", "revision", "reader", "gateway"])
def test_placeholders_are_refused_where_people_sign_in(project: Project, service: str) -> None:
    ran = project.compose("run", "--rm", "--no-deps", service, KANDEV_AUTH="enabled", **PLACEHOLDERS)
    assert ran.returncode == 2
    assert "KANDEV_DATABASE_PASSWORD is still a placeholder" in ran.stdout + ran.stderr


def test_a_service_that_cannot_be_replaced_goes_on(project: Project) -> None:
    before = project.done("ps", "--all", "--quiet", "reader")
    ran = project.run("sh", "deploy/compose/roll.sh", "reader", KANDEV_LOG_LEVEL="no-such-level")
    assert ran.returncode == 1
    assert "did not become ready; the old go on" in ran.stderr
    assert "Settings cannot be used: KANDEV_LOG_LEVEL" in ran.stderr
    assert project.done("ps", "--all", "--quiet", "reader").split() == before.split()


def test_the_data_cannot_be_reached_from_outside(project: Project) -> None:
    published = project.done("ps", "--format", "{{.Service}} {{.Ports}}")
    assert [line.split()[0] for line in published.splitlines() if "->" in line] == ["balancer"]
