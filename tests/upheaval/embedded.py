"""An installation that `kandev-conversation up` runs on this machine, for a proof without containers."""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp
from redis.asyncio import Redis

from deploy.local.launch import launched
from deploy.local.running import RunningStack, running_stack
from deploy.local.supervisor import ProcessState
from tests.support.waiting import eventually
from tests.upheaval.installation import Broken
from tests.upheaval.plan import GATEWAY, Upheaval, plan

SERVICES = ("gateway", "reader", "revision", "redis", "postgres")
REPLICAS = {"gateway": 3, "reader": 2, "revision": 2, "redis": 1, "postgres": 1}

READY_SECONDS = 180.0
"""Longest wait for processes to be ready again, on a machine that has other things to do."""

END_SECONDS = 60.0
"""Longest wait for the whole to end in order."""

LOG_CHARACTERS = 2000

GENTLE = {"postgres": signal.SIGINT}
"""What ends a service in order, where that is not SIGTERM: PostgreSQL would wait for all of its clients."""

GIVEN = ("DATABASE_URL", "REDIS_URL", "PORT", "HOST", "DATA_DIR", "AUTH")
"""Settings of whoever runs the proof that would make it another installation."""


class EmbeddedInstallation:
    """Starts the whole on free ports with its data in `folder`, which other users have to be able to enter."""

    def __init__(self, folder: Path) -> None:
        self.upheavals: Sequence[Upheaval] = plan(SERVICES)
        self.urls: Sequence[str] = ()
        self._data = folder / "data"
        self._log = folder / "up.log"
        self._process: asyncio.subprocess.Process
        self._http: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        command = (
            *(sys.executable, "-m", "cli.main", "up"),
            *("--data", str(self._data)),
            *(f"--{service}s={REPLICAS[service]}" for service in ("gateway", "reader", "revision")),
        )
        with self._log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *launched(command, death_signal=signal.SIGTERM),
                env=_environment(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5))
        try:
            await self._ready({})
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        self.urls = [f"http://127.0.0.1:{gateway.ports['http']}" for gateway in self._processes(GATEWAY)]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.close()
        await self.end()

    async def end(self) -> None:
        """Ends all of it, in order if it does so in time."""
        if self._process.returncode is None:
            self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), END_SECONDS)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    async def hit(self, upheaval: Upheaval) -> None:
        """Lets it happen; returns once every process runs and is ready again. Raises `Broken`."""
        match upheaval.manner:
            case "restart":
                await self._end(self._processes(upheaval.service), GENTLE.get(upheaval.service, signal.SIGTERM))
            case "kill":
                await self._end(self._processes(upheaval.service), signal.SIGKILL)
            case "flush":
                async with Redis.from_url(self.stack().redis_url, protocol=2) as redis:
                    await redis.flushall()
            case "roll":
                for process in self._processes(upheaval.service):
                    await self._end([process], signal.SIGTERM)
            case "upgrade":
                raise Broken("its processes are not replaced by others")

    def stack(self) -> RunningStack:
        """What runs now. Raises `Broken`."""
        stack = running_stack(self._data)
        if stack is None:
            raise Broken("the installation does not run")
        return stack

    async def _end(self, processes: Sequence[ProcessState], number: signal.Signals) -> None:
        """Ends processes and waits for those that the supervisor starts in their place."""
        for process in processes:
            os.kill(process.pid, number)
        await self._ready({(process.name, process.instance): process.pid for process in processes})

    async def _ready(self, ended: dict[tuple[str, int], int]) -> None:
        """Waits until every process runs, others than the ended ones, and every service says that it is ready."""

        async def waiting() -> list[str]:
            if self._process.returncode is not None:
                raise Broken(f"the installation ended: {self._log.read_text(errors='replace')[-LOG_CHARACTERS:]}")
            stack = running_stack(self._data)
            if stack is None or len(stack.processes) != sum(REPLICAS.values()):
                return ["not all processes run"]
            old = [
                process.name
                for process in stack.processes
                if ended.get((process.name, process.instance)) == process.pid
            ]
            return old or [process.name for process in stack.processes if not await self._serves(process)]

        try:
            await eventually(waiting, lambda found: not found, READY_SECONDS)
        except AssertionError as error:
            raise Broken(str(error)) from error

    async def _serves(self, process: ProcessState) -> bool:
        """Whether a service is ready. Servers are, when the services are that need them."""
        if "metrics" not in process.ports:
            return True
        try:
            async with self._http.get(f"http://127.0.0.1:{process.ports['metrics']}/ready") as answer:
                body: dict[str, object] = await answer.json()
                return body["status"] == "ready"
        except (aiohttp.ClientError, TimeoutError):
            return False

    def _processes(self, service: str) -> list[ProcessState]:
        return [process for process in self.stack().processes if process.name == service]


def _environment() -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if name.removeprefix("KANDEV_") not in GIVEN}
    return {**own, "KANDEV_RPC_PORT": "0"}
