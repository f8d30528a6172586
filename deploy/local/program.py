"""What the supervisor starts, and one running instance of it."""

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

# Longest piece of output handled as one line: a program that never ends its lines must not fill the memory.
LINE_BYTES = 64 * 1024
# How long output may still arrive after the program ended (a process that it left behind may hold the pipe).
DRAIN_SECONDS = 1.0


@dataclass(frozen=True)
class Program:
    """One program to keep running. `command` is asked again at every start; `ready` tells whether it serves now.

    `stop_signal` asks it to end, `last_signal` makes it end. Output lines with one of `expected_lines` are not shown.
    """

    name: str
    instance: int
    command: Callable[[], Sequence[str]]
    ready: Callable[[], Awaitable[bool]]
    ports: Mapping[str, int] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    stop_signal: signal.Signals = signal.SIGTERM
    stop_seconds: float = 10.0
    last_signal: signal.Signals = signal.SIGKILL
    expected_lines: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Name and instance, as the log shows them."""
        return f"{self.name}.{self.instance}"

    def shows(self, line: str) -> bool:
        """Whether a line of its output is worth showing."""
        return not any(part in line for part in self.expected_lines)


class RunningProgram:
    """One started process, in a process group of its own so that ctrl-c reaches the supervisor alone."""

    def __init__(self, program: Program, process: asyncio.subprocess.Process, reader: asyncio.Task[None]) -> None:
        self._program = program
        self._process = process
        self._reader = reader

    @classmethod
    async def start(cls, program: Program, on_line: Callable[[str], None]) -> "RunningProgram":
        """Starts the program; its output reaches `on_line` line by line."""
        receiver, sender = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *program.command(),
                stdin=subprocess.DEVNULL,
                stdout=sender,
                stderr=sender,
                env={**os.environ, **program.environment},
                start_new_session=True,
            )
        except BaseException:
            os.close(receiver)
            raise
        finally:
            os.close(sender)
        return cls(program, process, asyncio.create_task(_read_lines(receiver, on_line)))

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    async def ended(self) -> int:
        """Waits for the end; the exit code, negative for a signal."""
        code = await self._process.wait()
        await asyncio.wait({self._reader}, timeout=DRAIN_SECONDS)
        self._reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reader
        return code

    async def stop(self, force: asyncio.Event) -> None:
        """Asks the program to end; makes it end after its time, or as soon as `force` is set."""
        for chosen, seconds in (
            (self._program.stop_signal, self._program.stop_seconds),
            (self._program.last_signal, 5.0),
        ):
            if not force.is_set() or chosen is self._program.last_signal:
                self._signal(chosen)
                if await self._ended_within(seconds, force if chosen is self._program.stop_signal else None):
                    return
        self._kill_group()
        await self._process.wait()

    async def _ended_within(self, seconds: float, force: asyncio.Event | None) -> bool:
        ended = asyncio.ensure_future(self._process.wait())
        forced = [asyncio.ensure_future(force.wait())] if force is not None else []
        await asyncio.wait([ended, *forced], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        over = ended.done()
        for waiting in (ended, *forced):
            waiting.cancel()
        await asyncio.gather(ended, *forced, return_exceptions=True)
        return over

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


async def _read_lines(descriptor: int, on_line: Callable[[str], None]) -> None:
    loop = asyncio.get_running_loop()
    stream = asyncio.StreamReader(limit=LINE_BYTES)
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(descriptor, "rb", 0)
    )
    rest = b""
    try:
        while piece := await stream.read(LINE_BYTES):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                on_line(line.decode(errors="replace").rstrip("\r"))
            if len(rest) >= LINE_BYTES:
                on_line(rest.decode(errors="replace"))
                rest = b""
    finally:
        if rest:
            on_line(rest.decode(errors="replace"))
        transport.close()
