"""What the two embedded servers have in common: prepared and run by the supervisor, or by one object in tests."""

import signal
import subprocess
import time
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self

from deploy.local.errors import StackError

START_SECONDS = 30.0
POLL_SECONDS = 0.02


class Server(ABC):
    """One server process on a loopback port. `start` may follow `stop`: same port, same data.

    `expected_lines` are parts of log lines that say nothing to the person at the terminal.
    """

    name: str
    expected_lines: tuple[str, ...] = ()
    stop_signal: signal.Signals

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder.absolute()
        self.port = port
        self._process: subprocess.Popen[bytes] | None = None

    @property
    @abstractmethod
    def url(self) -> str:
        """Address with credentials, as clients take it."""

    @abstractmethod
    def prepare(self) -> None:
        """Makes what the server needs in its folder. Idempotent. Raises `StackError`."""

    @abstractmethod
    def command(self) -> list[str]:
        """The command line that runs the prepared server in the foreground, logging to standard error."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether the server accepts a connection and a request now."""

    @property
    def alive(self) -> bool:
        """Whether the process that `start` made still runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """Process id of the running server."""
        return self._process.pid if self._process is not None and self.alive else None

    def start(self) -> None:
        """Starts the server and waits until it answers. Raises `StackError` with the end of its log."""
        self.prepare()
        log_path = self.folder / "server.log"
        with log_path.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - a fixed program
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True
            )
        deadline = time.monotonic() + START_SECONDS
        while not self.answers():
            if not self.alive or time.monotonic() > deadline:
                self.kill()
                end = log_path.read_text(errors="replace").strip().splitlines()[-5:]
                raise StackError(f"{self.name} did not start on port {self.port}. It said:\n" + "\n".join(end))
            time.sleep(POLL_SECONDS)

    def stop(self, seconds: float = 20.0) -> None:
        """Stops the server in order, by force after `seconds`."""
        if self._process is None:
            return
        if self.alive:
            self._process.send_signal(self.stop_signal)
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """Ends the server as a crash would. Its data stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def write_private(path: Path, text: str) -> None:
    """Writes a file that only this user may read, whole or not at all."""
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    draft.touch(mode=0o600)
    draft.write_text(text)
    draft.replace(path)
