"""`run.json`: what runs, for other commands on the same machine. It holds passwords: only its owner may read it."""

import fcntl
import os
import time
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from deploy.local.errors import StackError
from deploy.local.server import write_private
from deploy.local.supervisor import ProcessState

RUN_FILE = "run.json"
LOCK_FILE = "up.lock"
LOCK_SECONDS = 1.0


class RunningStack(BaseModel):
    """One running stack. `url` and `ws_url` are those of the first gateway; `pid` is the supervisor."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    pid: int
    started_at: str
    url: str
    ws_url: str
    database_url: str
    redis_url: str
    ports: dict[str, int]
    processes: tuple[ProcessState, ...] = ()


def running_stack(data_dir: Path) -> RunningStack | None:
    """What runs on this data folder; None when nothing does, also where a killed supervisor left its file behind."""
    try:
        with (data_dir / LOCK_FILE).open("rb") as lock:
            if _try_lock(lock.fileno(), fcntl.LOCK_SH):
                return None
        return RunningStack.model_validate_json((data_dir / RUN_FILE).read_bytes())
    except (OSError, ValidationError):
        return None


class DataFolder:
    """The data folder while one supervisor holds it: the lock ends with the process, however it ends."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._lock: int | None = None

    def __enter__(self) -> Self:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StackError(
                f"{self.path} cannot be written: {error.strerror}. Set KANDEV_DATA_DIR to a folder of your own."
            ) from error
        # Somebody who only asks what runs holds the lock for an instant.
        deadline = time.monotonic() + LOCK_SECONDS
        while not _try_lock(self._lock, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                os.close(self._lock)
                raise StackError(self._already_running())
            time.sleep(0.02)
        self.forget()
        return self

    def __exit__(self, *_: object) -> None:
        self.forget()
        if self._lock is not None:
            os.close(self._lock)

    def announce(self, stack: RunningStack) -> None:
        """Writes what runs now."""
        write_private(self.path / RUN_FILE, stack.model_dump_json(indent=2) + "\n")

    def forget(self) -> None:
        """Takes the announcement back."""
        (self.path / RUN_FILE).unlink(missing_ok=True)

    def _already_running(self) -> str:
        found = running_stack(self.path)
        if found is None:
            return f"Another start is under way on {self.path}. Wait for it, or set KANDEV_DATA_DIR to a second folder."
        return (
            f"A stack already runs on {self.path}: process {found.pid}, {found.url}. "
            f"Use it, stop it (ctrl-c there, or kill {found.pid}), or set KANDEV_DATA_DIR to a second folder."
        )


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
