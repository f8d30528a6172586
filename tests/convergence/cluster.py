"""Everything as it runs in production, to be broken: own PostgreSQL and Redis, and two processes of each service."""

import asyncio
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypeVar

import aiohttp
import asyncpg
from redis.asyncio import Redis

from deploy.local.ports import Ports
from deploy.local.postgres import PostgresServer
from deploy.local.redis import RedisServer
from services.revision.schema.migrate import migrate
from services.revision.tracker.leadership import LOCK_KEY
from tests.support.logs import marked, quoted
from tests.support.programs import python
from tests.support.waiting import eventually

Name = Literal["revision", "reader", "gateway"]
NAMES: tuple[Name, ...] = ("revision", "reader", "gateway")
REPLICAS = 2
START_PATIENCE = 180.0
"""Seconds after which a process counts as one that never serves. Six start at once, on the cores that there are."""
END_PATIENCE = 60.0
"""Seconds after which a process counts as one that does not end."""
LOG_CHARACTERS = 4000
ROOT = Path(__file__).parents[2]

LOCK_HOLDER = """
SELECT a.pid, a.client_port FROM pg_locks l JOIN pg_stat_activity a USING (pid)
 WHERE l.locktype = 'advisory' AND l.granted AND a.datname = current_database()
   AND (l.classid::bigint << 32) + l.objid::bigint = $1
"""

T = TypeVar("T")


class Replica:
    """One process of a service. Its log stays in a file through every life."""

    def __init__(self, name: Name, log: Path, environment: dict[str, str], port: int, metrics: int) -> None:
        self.name = name
        self.url = f"http://127.0.0.1:{port}"
        self.log = log
        self._environment = {
            **environment,
            "KANDEV_PORT": str(port),
            "KANDEV_RPC_PORT": "0",
            "KANDEV_METRICS_PORT": str(metrics),
        }
        self._ready_url = f"http://127.0.0.1:{metrics}/ready"
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        """Starts the process and waits for nothing."""
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *python("-m", "cli.main", "run", self.name),
                cwd=ROOT,
                env=self._environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a ctrl-c is the test's, which then stops it in order
            )

    async def end(self, number: signal.Signals) -> int:
        """Ends the process by a signal; the code it ended with. A stopped one is woken for it."""
        process, self._process = self._process, None
        assert process is not None, f"{self.name} does not run"
        assert process.returncode is None, f"{self.name} ended by itself; its log ends: {self.last_words()}"
        process.send_signal(number)
        process.send_signal(signal.SIGCONT)
        try:
            return await asyncio.wait_for(process.wait(), END_PATIENCE)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise AssertionError(f"{self.name} did not end for {number!r}; its log ends: {self.last_words()}") from None

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the running process."""
        assert self._process is not None, f"{self.name} does not run"
        self._process.send_signal(number)

    def check(self) -> None:
        """Fails when the process ended though nobody ended it."""
        if self._process is not None:
            assert self._process.returncode is None, f"{self.name} ended by itself; its log ends: {self.last_words()}"

    def last_words(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-LOG_CHARACTERS:]

    async def readiness(self, http: aiohttp.ClientSession) -> str:
        """`ready` once it serves all that it should; else what it waits for."""
        self.check()
        try:
            async with http.get(self._ready_url) as answer:
                body: dict[str, object] = await answer.json()
                return "ready" if body["status"] == "ready" else str(body["reasons"])
        except (aiohttp.ClientError, TimeoutError) as error:
            return repr(error)


class Cluster:
    """The running whole. `pool` and `redis` are connections of the test's own."""

    def __init__(self, folder: Path) -> None:
        self._ports = Ports()
        self._folder = folder
        self.postgres = PostgresServer(folder / "postgres", self._ports.private(), disposable=True)
        self.redis_server = RedisServer(folder / "redis", self._ports.private())
        self.replicas: dict[Name, tuple[Replica, ...]] = {}
        self.pool: asyncpg.Pool
        self.redis: Redis
        self.http: aiohttp.ClientSession
        self._ending = AsyncExitStack()
        # One thread that lives as long as the servers: they end when the thread that started them does.
        self._keeper = ThreadPoolExecutor(1, "servers")

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as ending:
            ending.callback(self._ports.close)
            ending.callback(self._keeper.shutdown)
            for server in (self.postgres, self.redis_server):
                await self.blocking(server.start)
                ending.push_async_callback(self.blocking, server.stop)
            await migrate(self.postgres.url)
            self.redis = Redis.from_url(self.redis_server.url, protocol=2)
            ending.push_async_callback(self.redis.aclose)
            self.pool = await asyncpg.create_pool(self.postgres.url, min_size=0, max_size=20)
            ending.callback(self.pool.terminate)
            self.http = await ending.enter_async_context(aiohttp.ClientSession())
            self.replicas = {name: tuple(self._replica(name, number) for number in range(REPLICAS)) for name in NAMES}
            ending.push_async_callback(self._stop)
            for replica in self.all_replicas():
                await replica.start()
            await self.ready()
            self._ending = ending.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._ending.aclose()

    def all_replicas(self) -> list[Replica]:
        """Every process of every service."""
        return [replica for replicas in self.replicas.values() for replica in replicas]

    async def blocking(self, call: Callable[[], T]) -> T:
        """Carries out what a server needs a thread for."""
        return await asyncio.get_running_loop().run_in_executor(self._keeper, call)

    async def ready(self) -> None:
        """Waits until every process serves, and one of the trackers leads."""

        async def all_ready() -> list[str]:
            answers = [(each, await each.readiness(self.http)) for each in self.all_replicas()]
            waiting = [f"{each.log.stem}: {answer}" for each, answer in answers if answer != "ready"]
            return waiting or ([] if await self.lock_holder() else ["nobody leads"])

        await eventually(all_ready, lambda waiting: not waiting, START_PATIENCE)

    async def lock_holder(self) -> tuple[int, int] | None:
        """Backend and client port of the leading tracker's lock; None while nobody holds it or nobody can be asked."""
        try:
            row = await self.pool.fetchrow(LOCK_HOLDER, LOCK_KEY)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            return None
        return None if row is None else (row["pid"], row["client_port"])

    async def leader(self) -> Replica:
        """The process whose tracker leads."""

        async def look() -> Replica | None:
            holder = await self.lock_holder()
            return None if holder is None else self._owner_of(holder[1])

        found = await eventually(look)
        assert found is not None
        return found

    async def standby(self) -> Replica:
        """The process whose tracker does not lead."""
        leader = await self.leader()
        return next(each for each in self.replicas["revision"] if each is not leader)

    def gateway_urls(self) -> list[str]:
        """Addresses of the gateways, whether or not they run."""
        return [replica.url for replica in self.replicas["gateway"]]

    def _owner_of(self, port: int) -> Replica | None:
        inode = _socket_inode(port)
        for replica in self.replicas["revision"]:
            if inode is not None and replica.pid is not None and inode in _open_sockets(replica.pid):
                return replica
        return None

    def _replica(self, name: Name, number: int) -> Replica:
        environment = {
            **os.environ,
            "KANDEV_DATABASE_URL": self.postgres.url,
            "KANDEV_REDIS_URL": self.redis_server.url,
            "KANDEV_DATABASE_POOL": "4",
            "KANDEV_LOG_LEVEL": "INFO",
        }
        log = self._folder / f"{name}-{number}.log"
        return Replica(name, log, environment, self._ports.private(), self._ports.private())

    async def _stop(self) -> None:
        """Stops all processes in order: each must end cleanly, whatever it has been through."""
        running = [each for each in self.all_replicas() if each.pid is not None]
        codes = await asyncio.gather(*(each.end(signal.SIGTERM) for each in running))
        assert not any(codes), dict(zip((each.log.name for each in running), codes, strict=True))
        written = "".join(each.log.read_text(errors="replace") for each in self.all_replicas() if each.log.exists())
        rows = await self.pool.fetch("SELECT DISTINCT content FROM task_session_messages LIMIT 10000")
        found = [*marked(written), *quoted(written, (row["content"] for row in rows))]
        assert not found, f"{len(found)} lines or contents stand in a log that may not"


def _socket_inode(port: int) -> str | None:
    """The kernel's number of the established connection that has this local port."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if int(fields[1].rpartition(":")[2], 16) == port and fields[3] == "01":
            return fields[9]
    return None


def _open_sockets(pid: int) -> set[str]:
    found = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(entry.readlink())
        except OSError:  # closed while we look
            continue
        if target.startswith("socket:["):
            found.add(target[8:-1])
    return found
