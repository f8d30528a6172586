"""One core for the process that is measured, the others for its load: neither takes the other's time."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.bench.process import Program


@contextmanager
def apart() -> Iterator[Callable[[Program], None]]:
    """Inside, whatever the bench runs or starts stays off one core, which the programs given to the function have for
    themselves. With a single core there is nothing to divide.
    """
    available = os.sched_getaffinity(0)
    measured = {min(available)}
    others = available - measured or measured
    for process in _descendants(os.getpid()):
        _pin(process, others)
    try:
        yield lambda program: _pin(program.process.pid, measured)
    finally:
        for process in _descendants(os.getpid()):
            _pin(process, available)


def _pin(process: int, cores: set[int]) -> None:
    with suppress(ProcessLookupError, FileNotFoundError):
        for thread in Path(f"/proc/{process}/task").iterdir():
            os.sched_setaffinity(int(thread.name), cores)


def _descendants(root: int) -> set[int]:
    """A process, its children, and theirs."""
    parents = dict(_parents())
    found = {root}
    while more := {process for process, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _parents() -> Iterator[tuple[int, int]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(ProcessLookupError, FileNotFoundError):
                # The name before the last parenthesis may hold anything.
                yield int(folder.name), int((folder / "stat").read_text().rpartition(")")[2].split()[1])


class LoadCores:
    """How busy the cores of the load were since this was made."""

    def __init__(self) -> None:
        available = os.sched_getaffinity(0)
        self._cores = available - {min(available)} or available
        self._since = self._times()

    def busy(self) -> float:
        """The share of time in which they did something, whoever wanted it."""
        idle, whole = (now - then for now, then in zip(self._times(), self._since, strict=True))
        return 1 - idle / whole if whole else 0.0

    def _times(self) -> tuple[int, int]:
        idle = whole = 0
        for line in Path("/proc/stat").read_text().splitlines():
            name, *ticks = line.split()
            if name.removeprefix("cpu").isdigit() and int(name[3:]) in self._cores:
                idle += int(ticks[3]) + int(ticks[4])
                whole += sum(map(int, ticks[:8]))
        return idle, whole
