"""The whole stack on one machine: servers, migrations, services; started in order, stopped in the reverse order."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp

from deploy.local.errors import StackError
from deploy.local.launch import launched
from deploy.local.log import Log
from deploy.local.ports import FIRST_METRICS_PORT, LOOPBACK, Ports
from deploy.local.postgres import PostgresServer
from deploy.local.program import Program
from deploy.local.reach import reach_database, reach_redis
from deploy.local.redis import RedisServer
from deploy.local.running import RUN_FILE, DataFolder, RunningStack
from deploy.local.server import Server
from deploy.local.supervisor import ProcessState, Supervisor

DEFAULT_PORT = 8080
DEFAULT_RPC_PORT = 8081
STOP_ORDER = (("gateway", "reader", "revision"), ("redis",), ("postgres",))

Migrate = Callable[[str], Awaitable[str]]
"""Brings the database at a URL to this version's schema. Returns what the welcome should say of it, or nothing."""
ServiceCommand = Callable[[str], Sequence[str]]


@dataclass(frozen=True)
class StackOptions:
    """What to start: a server whose address is None runs here. `port` None: 8080, or a free one;
    `rpc_port` None: 8081, or a free one; 0: none.
    """

    data_dir: Path
    gateways: int = 1
    readers: int = 1
    revisions: int = 1
    host: str = "127.0.0.1"
    port: int | None = None
    rpc_port: int | None = None
    database_url: str | None = None
    redis_url: str | None = None


def service_command(service: str) -> Sequence[str]:
    """The command line of one service in this environment."""
    return [sys.executable, "-m", "cli.main", "run", service]


async def run_stack(
    options: StackOptions, log: Log, *, migrate: Migrate, command: ServiceCommand = service_command
) -> None:
    """Runs the stack until SIGINT, SIGTERM or SIGHUP; a second signal ends it by force.

    Raises `StackError` when it cannot start; everything that was started is stopped by then.
    """
    stop, force = asyncio.Event(), asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            force.set()
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, on_signal)
    with DataFolder(options.data_dir) as folder, Ports() as ports:
        stack = _Stack(options, folder, ports, log, migrate=migrate, command=command)
        await stack.run(stop, force)


class _Stack:
    """One run of the stack in a data folder that it holds."""

    def __init__(
        self,
        options: StackOptions,
        folder: DataFolder,
        ports: Ports,
        log: Log,
        *,
        migrate: Migrate,
        command: ServiceCommand,
    ) -> None:
        self._options = options
        self._folder = folder
        self._log = log
        self._migrate = migrate
        self._command = command
        self._ports = ports
        self._supervisor = Supervisor(log, self._on_change)
        self._announced: RunningStack | None = None
        self._complaints: set[str] = set()

    async def run(self, stop: asyncio.Event, force: asyncio.Event) -> None:
        start = asyncio.create_task(self._start())
        stopped = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({start, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if start.done():
                await start
                await stopped
        finally:
            for task in (start, stopped):
                task.cancel()
            await asyncio.gather(start, stopped, return_exceptions=True)
            await self._stop(force)

    async def _start(self) -> None:
        port, rpc_port = self._gateway_port(), self._rpc_port()
        database, broker = await self._servers()
        address = _authority(self._options.host, port)
        self._announced = RunningStack(
            pid=os.getpid(),
            started_at=_now(),
            url=f"http://{address}",
            ws_url=f"ws://{address}/ws",
            database_url=database,
            redis_url=broker,
            ports={
                "http": port,
                "rpc": rpc_port,
                "postgres": urlsplit(database).port or 5432,
                "redis": urlsplit(broker).port or 6379,
            },
        )
        self._log.event("migrating the database")
        note = await self._migrate(database)
        await _all(self._supervisor.start(program) for program in self._services(port, rpc_port, database, broker))
        self._log.block(self._welcome(self._announced, note))

    async def _stop(self, force: asyncio.Event) -> None:
        self._log.event("stopping (ctrl-c again: by force)")
        self._folder.forget()
        self._announced = None
        for names in STOP_ORDER:
            await self._supervisor.stop(names, force)
        self._log.event("stopped")

    def _gateway_port(self) -> int:
        host = self._options.host
        if self._options.port is not None:
            return self._ports.exactly(self._options.port, "PORT", host)
        port = self._ports.preferred(DEFAULT_PORT, host)
        if port != DEFAULT_PORT:
            self._log.event(f"port {DEFAULT_PORT} is in use; serving on {port} instead")
        return port

    def _rpc_port(self) -> int:
        host = self._options.host
        if self._options.rpc_port is None:
            return self._ports.preferred(DEFAULT_RPC_PORT, host)
        return self._options.rpc_port and self._ports.exactly(self._options.rpc_port, "KANDEV_RPC_PORT", host)

    async def _servers(self) -> tuple[str, str]:
        """Addresses of the database and of Redis, each either given and reachable or started here."""
        postgres = PostgresServer(self._folder.path / "postgres", self._ports.private())
        valkey = RedisServer(self._folder.path / "redis", self._ports.private())
        given_database, given_redis = self._options.database_url, self._options.redis_url
        await _all(
            [
                self._start_server("postgres", postgres, signal.SIGQUIT)
                if given_database is None
                else reach_database(given_database),
                self._start_server("redis", valkey, signal.SIGKILL)
                if given_redis is None
                else reach_redis(given_redis),
            ]
        )
        return given_database or postgres.url, given_redis or valkey.url

    async def _start_server(self, name: str, server: Server, last_signal: signal.Signals) -> None:
        self._log.event(f"starting {server.name}")
        await asyncio.to_thread(server.prepare)
        program = Program(
            name=name,
            instance=0,
            command=server.command,
            ready=lambda: asyncio.to_thread(server.answers),
            ports={name: server.port},
            stop_signal=server.stop_signal,
            stop_seconds=20.0,
            last_signal=last_signal,
            expected_lines=server.expected_lines,
        )
        await self._supervisor.start(program)

    def _services(self, port: int, rpc_port: int, database: str, broker: str) -> list[Program]:
        options = self._options
        common = {"KANDEV_DATABASE_URL": database, "KANDEV_REDIS_URL": broker, "PYTHONUNBUFFERED": "1"}
        programs = []
        for name, count in (
            ("revision", options.revisions),
            ("reader", options.readers),
            ("gateway", options.gateways),
        ):
            for instance in range(count):
                metrics = self._ports.upward(FIRST_METRICS_PORT)
                ports = {"metrics": metrics}
                if name == "gateway":
                    ports["http"] = port if instance == 0 else self._ports.private(options.host)
                    if rpc_port:
                        ports["rpc"] = rpc_port if instance == 0 else self._ports.private(options.host)
                programs.append(self._service(name, instance, common, ports))
        return programs

    def _service(self, name: str, instance: int, common: Mapping[str, str], ports: Mapping[str, int]) -> Program:
        label = f"{name}.{instance}"
        environment = {**common, "KANDEV_METRICS_PORT": str(ports["metrics"]), "KANDEV_METRICS_HOST": "127.0.0.1"}
        # All of it stops together: there is nobody to leave clients to.
        environment |= {"KANDEV_DRAIN_SECONDS": "0", "KANDEV_DRAIN_PAUSE": "0"}
        address = _authority("127.0.0.1", ports["metrics"])
        if "http" in ports:
            environment |= {
                "KANDEV_PORT": str(ports["http"]),
                "KANDEV_RPC_PORT": str(ports.get("rpc", 0)),
                "KANDEV_HOST": self._options.host,
            }
            address = _authority(self._options.host, ports["http"])
        return Program(
            name=name,
            instance=instance,
            command=lambda: launched(self._command(name), death_signal=signal.SIGKILL),
            ready=lambda: self._serves(label, f"http://{address}/ready"),
            ports=ports,
            environment=environment,
        )

    async def _serves(self, label: str, url: str) -> bool:
        """Whether a service is ready. One that reports itself degraded serves, too; its reason is logged once."""
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2)) as session,
                session.get(url) as answer,
            ):
                if answer.status != 200:
                    return False
                body = await answer.json()
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return False
        if isinstance(body, dict) and body.get("status") == "degraded":
            self._complain(f"{label} is degraded: {'; '.join(map(str, body.get('reasons', {}).values()))}")
        return True

    def _complain(self, complaint: str) -> None:
        if complaint not in self._complaints:
            self._complaints.add(complaint)
            self._log.warning(complaint)

    def _on_change(self, processes: tuple[ProcessState, ...]) -> None:
        if self._announced is not None:
            self._announced = self._announced.model_copy(update={"processes": processes})
            self._folder.announce(self._announced)

    def _welcome(self, stack: RunningStack, note: str) -> str:
        others = [
            f"{_authority(self._options.host, p.ports['http'])}"
            for p in stack.processes
            if p.name == "gateway" and p.instance > 0
        ]
        lines = [
            "",
            f"  Ready       {stack.url}",
            *(f"              http://{other}" for other in others),
            f"  WebSocket   {stack.ws_url}",
            *(f"  Host RPC    {_authority(self._options.host, port)}" for port in [stack.ports.get("rpc")] if port),
            "  Follow      kandev-conversation tail SESSION",
            f"  Data        {self._folder.path} (kept; {RUN_FILE} names what runs)",
            "  Stop        ctrl-c",
            *([f"  Note        {note}"] if note else []),
            "",
        ]
        return "\n".join(lines)


async def _all(work: Iterable[Coroutine[object, object, None]]) -> None:
    """Runs everything at once; the first `StackError` cancels the rest and is raised."""
    failed: BaseException | None = None
    try:
        async with asyncio.TaskGroup() as group:
            for coroutine in work:
                group.create_task(coroutine)
    except* StackError as errors:
        failed = _first(errors)
    # Raised out here: inside `except*`, Python before 3.11.4 puts it into a group of its own.
    if failed is not None:
        raise failed


def _first(errors: BaseExceptionGroup[StackError]) -> BaseException:
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


def _authority(host: str, port: int) -> str:
    """Host and port as a URL of this machine names them."""
    named = {"0.0.0.0": LOOPBACK, "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    return f"[{named}]:{port}" if ":" in named else f"{named}:{port}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
