"""A real standby of a test's PostgreSQL, whose replay a test can halt."""

from pathlib import Path

from deploy.local.postgres import PostgresServer


class Standby(PostgresServer):
    """Copied from a running server when it is first started; replays what that server writes."""

    def __init__(self, folder: Path, port: int, primary: PostgresServer) -> None:
        super().__init__(folder, port, disposable=True)
        self._primary = primary

    @property
    def url(self) -> str:
        """Address of the copied database: the primary's, at this server's port."""
        return self._primary.url.replace(f":{self._primary.port}/", f":{self.port}/")

    def _initialise(self) -> None:
        copy = ["pg_basebackup", "-D", str(self.data), "-d", self._primary.url, "-R", "-X", "stream", "-c", "fast"]
        self._run(copy)
