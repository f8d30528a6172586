"""PostgreSQL from a wheel: initialised once, run in the foreground, on loopback only, with a generated password."""

import os
import secrets
import shutil
import signal
import subprocess
import time
from functools import cached_property
from pathlib import Path

import psycopg

from deploy.local.errors import StackError
from deploy.local.launch import launched
from deploy.local.owner import database_user, hand_over
from deploy.local.programs import Programs, postgres_programs
from deploy.local.server import POLL_SECONDS, Server, write_private

MAJOR = "18"
USER = "kandev"
DATABASE = "kandev"
PREDECESSOR_SECONDS = 15.0

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",  # clients use the port: no path that could be too long or left behind
    "wal_level": "logical",
    "max_wal_senders": "32",
    "max_replication_slots": "32",
    "max_connections": "200",
    "max_slot_wal_keep_size": "2GB",  # a slot that nobody reads must not fill the disk
    "idle_in_transaction_session_timeout": "5min",
    "log_checkpoints": "off",
    # Statements and details hold message content, which no log may show.
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_line_prefix": "",
    "log_timezone": "UTC",
    "timezone": "UTC",
}
# For data that nobody will miss. Commits outlive a crash of the server all the same, though not one of the machine.
DISPOSABLE = {"fsync": "off", "full_page_writes": "off"}


class PostgresServer(Server):
    """One cluster below `folder` (made when missing) with the superuser and the database `kandev`.

    `disposable` gives up safety against power loss for speed. Under root the server runs as the folder's owner or as an
    unprivileged user of the system; see `deploy.local.launch` for how that user reaches a closed folder.
    """

    name = "PostgreSQL"
    expected_lines = ("the database system is starting up", "the database system is shutting down")
    stop_signal = signal.SIGINT  # fast shutdown: sessions are ended, the data is written

    def __init__(self, folder: Path, port: int, *, disposable: bool = False) -> None:
        super().__init__(folder, port)
        self._disposable = disposable
        self._user = database_user(self.folder)

    @property
    def data(self) -> Path:
        """PostgreSQL's own data directory."""
        return self.folder / "data"

    @property
    def url(self) -> str:
        """Address of the database `kandev` as its superuser. Raises `StackError` before `prepare`."""
        password = self.folder / "password"
        try:
            return f"postgresql://{USER}:{password.read_text().strip()}@127.0.0.1:{self.port}/{DATABASE}"
        except OSError as error:
            raise StackError(
                f"The password of the embedded database cannot be read from {password}: {error.strerror}."
            ) from error

    def prepare(self) -> None:
        """Initialises the cluster on first use; waits for a predecessor that is still shutting down."""
        self._own_folder()
        version = self.data / "PG_VERSION"
        if not version.exists():
            self._initialise()
        elif (found := version.read_text().strip()) != MAJOR:
            raise StackError(
                f"{self.data} was made by PostgreSQL {found}; this version starts PostgreSQL {MAJOR}. "
                "Dump it with the version that made it, or move the folder away to start afresh."
            )
        self._await_predecessor()

    def command(self) -> list[str]:
        """`postgres` itself. When its parent dies it quits at once and recovers from its log at the next start."""
        settings = SETTINGS | (DISPOSABLE if self._disposable else {})
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return self._launched(["postgres", "-D", str(self.data), "-p", str(self.port), *options], signal.SIGQUIT)

    def answers(self) -> bool:
        """Whether a client can log in now."""
        try:
            with psycopg.connect(self.url, connect_timeout=2):
                return True
        except psycopg.OperationalError:
            return False

    @cached_property
    def _programs(self) -> Programs:
        return postgres_programs(self.folder, self._user)

    def _own_folder(self) -> None:
        if not self.folder.exists():
            self.folder.mkdir(parents=True, mode=0o700)
            hand_over(self.folder, self._user)
        elif self._user is None and self.folder.stat().st_uid != os.geteuid():
            raise StackError(
                f"{self.folder} belongs to user id {self.folder.stat().st_uid}. Start the stack as that user (as root, "
                "if root made it), or choose another KANDEV_DATA_DIR."
            )

    def _initialise(self) -> None:
        """Builds the cluster beside its place and renames it, so that an interrupted start leaves nothing half made."""
        draft, password_file = self.folder / "data.new", self.folder / "password"
        shutil.rmtree(draft, ignore_errors=True)
        write_private(password_file, secrets.token_urlsafe(24))
        hand_over(password_file, self._user)
        locale = ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        access = [f"--username={USER}", "--auth=scram-sha-256", f"--pwfile={password_file}"]
        speed = ["--no-sync"] if self._disposable else []
        self._run(["initdb", "-D", str(draft), *locale, *access, "--no-instructions", *speed])
        self._run(["postgres", "--single", "-D", str(draft), "postgres"], f"CREATE DATABASE {DATABASE};\n")
        draft.rename(self.data)

    def _await_predecessor(self) -> None:
        """A supervisor that was killed leaves a server that needs a moment to end."""
        deadline = time.monotonic() + PREDECESSOR_SECONDS
        while (pid := self._running_postmaster()) is not None:
            if time.monotonic() > deadline:
                raise StackError(
                    f"Process {pid} still runs PostgreSQL on {self.data}. Stop it (kill -INT {pid}) and start again."
                )
            time.sleep(POLL_SECONDS)

    def _running_postmaster(self) -> int | None:
        try:
            pid = int((self.data / "postmaster.pid").read_text().split("\n", 1)[0])
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return None
        return pid if os.fsencode(self.data) in command.split(b"\0") else None

    def _run(self, argv: list[str], text: str = "") -> None:
        result = subprocess.run(  # noqa: S603 - a program of the wheel
            self._launched(argv, signal.SIGKILL),
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            cwd="/",
            check=False,
        )
        if result.returncode != 0:
            end = "\n".join((result.stderr or result.stdout).strip().splitlines()[-5:])
            raise StackError(f"The embedded database could not be set up in {self.folder}. {argv[0]} said:\n{end}")

    def _launched(self, argv: list[str], death_signal: signal.Signals) -> list[str]:
        programs = self._programs
        inside = [path for path in programs.needs if path.is_relative_to(self.folder)]
        environment = ["/usr/bin/env", "LC_ALL=C", "TZ=UTC"]
        return launched(
            [*environment, str(programs.folder / argv[0]), *argv[1:]],
            death_signal=death_signal,
            user=self._user,
            needs=[self.folder, *(path for path in programs.needs if path not in inside)],
        )
