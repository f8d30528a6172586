"""Programs that the bench starts: each dies with it, and hears nothing of a ctrl-c that the bench itself handles."""

import asyncio
import json
import os
import re
import resource
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from deploy.local.launch import launched

ROOT = Path(__file__).parents[2]

STOP_SECONDS = 10.0
"""How long a program may take to end before it is killed."""

LINE_BYTES = 16 << 20
"""Longest answer of a peer."""


def raise_file_limit() -> int:
    """Lets this process, and those that it starts from now on, have as many open files as the system allows it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


class Program:
    """One process. `command` begins with an absolute path."""

    def __init__(self, *command: str, environment: Mapping[str, str] | None = None) -> None:
        self._command = launched(command, death_signal=signal.SIGKILL)
        self._environment = {**os.environ, **(environment or {})}
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            cwd=ROOT,
            env=self._environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_BYTES,
            start_new_session=True,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self.process
        if process.returncode is None:
            process.terminate()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    @property
    def process(self) -> asyncio.subprocess.Process:
        """The running process."""
        if self._process is None:
            raise RuntimeError("a program is used inside `async with`")
        return self._process

    def cpu_seconds(self) -> float:
        """Processor time of all its threads so far."""
        tasks = Path(f"/proc/{self.process.pid}/task")
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9

    def resident_bytes(self) -> int:
        """Memory that it occupies."""
        rollup = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        found = re.search(r"^Rss:\s+(\d+) kB", rollup, re.MULTILINE)
        if found is None:
            raise RuntimeError("the kernel did not say how much memory a program occupies")
        return int(found[1]) << 10

    def forget_peak(self) -> None:
        """From now on, `peak_bytes` counts anew."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def peak_bytes(self) -> int:
        """Most memory that it occupied."""
        found = re.search(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{self.process.pid}/status").read_text(), re.MULTILINE)
        if found is None:
            raise RuntimeError("the kernel did not say how much memory a program occupied at most")
        return int(found[1]) << 10


class AnsweringProgram(Program):
    """A program that answers questions, one JSON object a line."""

    async def ask(self, **question: object) -> dict[str, Any]:  # Any: each role has answers of its own
        """The answer to a question."""
        process = self.process
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("a peer without pipes")
        process.stdin.write(json.dumps(question).encode() + b"\n")
        await process.stdin.drain()
        line = await process.stdout.readline()
        if not line:
            raise RuntimeError(f"a peer ended instead of answering {sorted(question)}")
        answer: dict[str, Any] = json.loads(line)
        return answer


class Peer(AnsweringProgram):
    """One of `tests.bench.peers` in Python."""

    def __init__(self, role: str, *arguments: str) -> None:
        super().__init__(sys.executable, "-m", f"tests.bench.peers.{role}", *arguments)


async def output_of(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """What a program prints; it is ended with the task that waits for it. Raises RuntimeError when it fails."""
    process = await asyncio.create_subprocess_exec(
        *launched(command, death_signal=signal.SIGKILL),
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        printed, complaint = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    if process.returncode != 0:
        raise RuntimeError(f"{command[0]} failed: {complaint.decode()[-500:]}")
    return printed.decode()
