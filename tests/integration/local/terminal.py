"""A stack with stand-in services, driven as a person at a terminal drives it."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import pytest

from deploy.local.running import RunningStack, running_stack
from deploy.local.supervisor import ProcessState
from tests.support.programs import alive, python

UP = Path(__file__).with_name("standin_up.py")
ROOT = Path(__file__).parents[3]
PATIENCE = 60.0
ADDRESSES = ("DATABASE_URL", "REDIS_URL", "PORT", "HOST", "DATA_DIR")

Found = TypeVar("Found")


def until(look: Callable[[], Found | None], what: str) -> Found:
    """Looks until there is something. Fails when nothing comes."""
    deadline = time.monotonic() + PATIENCE
    while (found := look()) is None:
        if time.monotonic() > deadline:
            pytest.fail(f"waited in vain for {what}")
        time.sleep(0.02)
    return found


def belonging(folder: Path) -> list[int]:
    """Processes whose command line or environment names the folder."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            told = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        if os.fsencode(folder) in told and alive(int(entry.name)):
            found.append(int(entry.name))
    return found


class Terminal:
    """One data folder and the stacks that are started on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / ".data"
        self.output = folder / "output.txt"
        self._started: list[subprocess.Popen[bytes]] = []

    def up(self, environment: Mapping[str, str] | None = None, gateways: int = 1) -> subprocess.Popen[bytes]:
        """Starts a stack; every process of it carries the folder's name in its environment."""
        clean = {
            name: value
            for name, value in os.environ.items()
            if name not in ADDRESSES and name.removeprefix("KANDEV_") not in ADDRESSES
        }
        with self.output.open("wb") as output:
            process = subprocess.Popen(
                python(UP, self.data, str(gateways), death_signal=signal.SIGTERM),
                env={**clean, "PYTHONPATH": str(ROOT), "STANDIN_FOLDER": str(self.folder), **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self._started.append(process)
        return process

    def ready(self, process: subprocess.Popen[bytes]) -> RunningStack:
        """Waits until the stack says that it serves."""

        def look() -> RunningStack | None:
            if process.poll() is not None:
                pytest.fail(f"the stack ended with {process.returncode}:\n{self.text()}")
            return running_stack(self.data) if "  Ready " in self.text() else None

        return until(look, "the stack to be ready")

    def refused(self, process: subprocess.Popen[bytes]) -> str:
        """Waits for a start that fails as bad input does; its output."""
        assert process.wait(PATIENCE) == 2, self.text()
        return self.text()

    def process(self, name: str, instance: int = 0) -> ProcessState:
        """What `run.json` says about one process now."""
        stack = running_stack(self.data)
        assert stack is not None
        return next(found for found in stack.processes if (found.name, found.instance) == (name, instance))

    def text(self) -> str:
        """What the latest stack has printed."""
        return self.output.read_text()

    def close(self) -> None:
        """Ends what a failed test left."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
                process.wait()
        until(lambda: True if not belonging(self.folder) else None, "every process to end")
