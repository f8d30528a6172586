"""Keeps programs running: whatever ends by itself is started again on the same ports, until it is stopped."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from deploy.local.errors import StackError
from deploy.local.log import Log
from deploy.local.program import Program, RunningProgram

# A program that has run this long starts its back-off anew: its next end is a new fault.
STABLE_SECONDS = 10.0
# Seconds before each further restart. The first is immediate: most ends are single events.
BACKOFF = (0.0, 0.2, 0.5, 1.0, 2.0, 5.0)
READY_POLL_SECONDS = 0.05
# Ends before it is ready for the first time after which a program counts as unable to start.
START_ATTEMPTS = 3
# The exit code of a program that refuses what it was given: starting it again would not help.
BAD_INPUT = 2
# The exit code that a shell gives when a program could not be executed.
NOT_STARTED = 126


@dataclass(frozen=True)
class ProcessState:
    """One running process, as `run.json` lists it."""

    name: str
    instance: int
    pid: int
    started_at: str
    restarts: int
    ports: dict[str, int]


def backoff(ends: int) -> float:
    """Seconds to wait before the restart that follows the `ends`-th end in a row (1 is the first)."""
    return BACKOFF[min(ends, len(BACKOFF)) - 1]


class Supervisor:
    """Owns one keeper task per program. `changed` is called with all processes after every start and restart."""

    def __init__(self, log: Log, changed: Callable[[tuple[ProcessState, ...]], None]) -> None:
        self._log = log
        self._changed = changed
        self._kept: list[_Kept] = []

    async def start(self, program: Program, seconds: float = 60.0) -> None:
        """Starts a program and waits until it is ready. Raises `StackError` when it cannot start within `seconds`."""
        kept = _Kept(program, self._log, self._report)
        self._kept.append(kept)
        await kept.start(seconds)

    async def stop(self, names: Sequence[str], force: asyncio.Event) -> None:
        """Stops all programs with these names at once and waits for their end; `force` shortens the patience."""
        await asyncio.gather(*(kept.stop(force) for kept in self._kept if kept.program.name in names))

    def _report(self) -> None:
        self._changed(tuple(kept.state for kept in self._kept if kept.state is not None))


class _Kept:
    """One program and the task that keeps it running."""

    def __init__(self, program: Program, log: Log, report: Callable[[], None]) -> None:
        self.program = program
        self.state: ProcessState | None = None
        self._log = log
        self._report = report
        self._running: RunningProgram | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._was_ready = False
        self._restarts = 0

    async def start(self, seconds: float) -> None:
        self._keeper = asyncio.create_task(self._keep())
        ready = asyncio.create_task(self._until_ready())
        try:
            await asyncio.wait({self._keeper, ready}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if self._keeper.done():
                await self._keeper
            if not ready.done():
                raise StackError(
                    f"{self.program.label} was not ready after {seconds:.0f} s. Its lines above may say why."
                )
            await ready
            self._was_ready = True
        finally:
            ready.cancel()
            await asyncio.gather(ready, return_exceptions=True)

    async def stop(self, force: asyncio.Event) -> None:
        self._stopping.set()
        if self._running is not None:
            await self._running.stop(force)
        if self._keeper is not None:
            # Between two runs the keeper only waits; in a run it has just seen the end.
            if self._running is None:
                self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)

    async def _until_ready(self) -> None:
        while self._running is None or not await self.program.ready():  # noqa: ASYNC110 - another process is asked
            await asyncio.sleep(READY_POLL_SECONDS)

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        ends = 0
        while not self._stopping.is_set():
            started = loop.time()
            try:
                code = await self._run_once()
            except OSError as error:
                self._log.warning(f"{self.program.label} cannot be started: {error.strerror}")
                code = NOT_STARTED
            if self._stopping.is_set():
                return
            ends = 1 if loop.time() - started > STABLE_SECONDS else ends + 1
            if not self._was_ready and (code == BAD_INPUT or ends >= START_ATTEMPTS):
                raise StackError(f"{self.program.label} could not start: it {_manner(code)}. Its lines above say why.")
            self._log.warning(f"{self.program.label} {_manner(code)}; starting it again")
            await asyncio.sleep(backoff(ends))
            self._restarts += 1

    def _show(self, line: str) -> None:
        if self.program.shows(line):
            self._log.line(self.program.label, line)

    async def _run_once(self) -> int:
        self._running = await RunningProgram.start(self.program, self._show)
        try:
            self.state = ProcessState(
                name=self.program.name,
                instance=self.program.instance,
                pid=self._running.pid,
                started_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
                restarts=self._restarts,
                ports=dict(self.program.ports),
            )
            self._report()
            return await self._running.ended()
        finally:
            self._running = None


def _manner(code: int) -> str:
    return f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
