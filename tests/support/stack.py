"""The three services on a real PostgreSQL and Redis: in the process of the test, or as processes that can be killed."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Literal, Protocol, Self

import aiohttp
import asyncpg
from pydantic import SecretStr
from redis.asyncio import Redis

from deploy.local.ports import Ports
from services.gateway.main import serve as serve_gateway
from services.reader.main import serve as serve_reader
from services.revision.main import serve as serve_revision
from shared.contracts import streams
from shared.database import LOST
from shared.settings import Settings
from tests.support.logs import LOG, quoted
from tests.support.programs import python
from tests.support.socket_client import SocketClient
from tests.support.waiting import eventually

Name = Literal["revision", "reader", "gateway"]

SERVE: Mapping[Name, Callable[[Settings], Awaitable[None]]] = {
    "revision": serve_revision,
    "reader": serve_reader,
    "gateway": serve_gateway,
}

ROOT = Path(__file__).parents[2]

ROOM = """
INSERT INTO workspaces (id) VALUES ('w');
INSERT INTO tasks (id, workspace_id) VALUES ('t', 'w'), ('u', 'w');
"""
"""A workspace with two tasks, everyone's."""

ADD = """
INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content) VALUES ($1, $2, $3, $4, $5)
"""


class _Running(Protocol):
    def check(self) -> None:
        """Fails with what ended the service, if it has ended."""

    async def stop(self) -> None:
        """Ends the service in order."""

    async def kill(self) -> None:
        """Ends the service as a crash would."""

    def tell(self) -> None:
        """Tells the service to stop."""

    async def ended(self) -> None:
        """Waits for its end in order."""


class _Task:
    """A service in this process."""

    def __init__(self, serving: Awaitable[None]) -> None:
        self._task = asyncio.ensure_future(serving)

    def check(self) -> None:
        if self._task.done():
            self._task.result()
            raise AssertionError("the service has returned")

    async def stop(self) -> None:
        self.check()
        self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.result()

    async def kill(self) -> None:
        raise AssertionError("only a process can be killed: start it with process=True")

    def tell(self) -> None:
        raise AssertionError("only a process can be told: start it with process=True")

    async def ended(self) -> None:
        await self.stop()


class _Process:
    """A service in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._listening = asyncio.ensure_future(self._listen())

    def check(self) -> None:
        assert self._process.returncode is None, f"the service has ended with {self._process.returncode}"

    async def stop(self) -> None:
        self.tell()
        await self.ended()

    def tell(self) -> None:
        self._process.terminate()

    async def ended(self) -> None:
        assert await self._process.wait() == 0
        await self._listening

    async def kill(self) -> None:
        self._process.kill()
        await self._process.wait()
        await self._listening

    async def _listen(self) -> None:
        """Takes what the process logs, until its end."""
        assert self._process.stderr is not None
        async for line in self._process.stderr:
            LOG.note(line.decode(errors="replace"))


class Stack:
    """The services that a test has started, and what it needs to talk to them.

    `redis` and `pool` are connections of the test's own. Services use Redis at `redis_url`, whose database is emptied
    first.
    """

    def __init__(self, database_url: str, redis_url: str, **settings: object) -> None:
        self.database_url = database_url
        self.redis_url = redis_url
        self.redis: Redis = Redis.from_url(redis_url, protocol=2)
        self._settings = settings
        self._ports = Ports()
        self._listening: dict[str, tuple[int, int, int]] = {}
        self._running: dict[str, _Running] = {}
        self._clients: list[SocketClient] = []
        self._begun = 0
        self.room = True
        """Whether the database has a schema and gets a workspace with two tasks."""
        self.pool: asyncpg.Pool
        self.http: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        logging.getLogger("faststream").setLevel(logging.WARNING)
        self._begun = LOG.end
        self.pool = await asyncpg.create_pool(self.database_url, min_size=1, max_size=16)
        self.http = aiohttp.ClientSession()
        await self.redis.flushdb()
        if self.room:
            await self.pool.execute(ROOM)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        async with AsyncExitStack() as ending:
            ending.callback(self._ports.close)
            ending.callback(self.pool.terminate)
            if self.room:
                ending.push_async_callback(self._nothing_of_it_is_logged)
            ending.push_async_callback(self.redis.aclose)
            for running in self._running.values():
                ending.push_async_callback(running.stop)
            ending.push_async_callback(self.http.close)
            for client in self._clients:
                ending.push_async_callback(client.close)

    async def contents_logged(self) -> list[str]:
        """Contents of messages that stand in what was logged since the stack began. None must."""
        rows = await self.pool.fetch("SELECT DISTINCT content FROM task_session_messages LIMIT 10000")
        return quoted(LOG.since(self._begun), (row["content"] for row in rows))

    async def _nothing_of_it_is_logged(self) -> None:
        with suppress(asyncpg.UndefinedTableError, *LOST):
            found = await self.contents_logged()
            assert not found, f"{len(found)} contents of messages stand in the log"

    async def start_all(self) -> Self:
        """Starts the three services and waits until they serve and follow."""
        await self.start("revision")
        await self.tracked()
        await self.start("reader")
        await self.start("gateway")
        await self.ready("gateway")
        return self

    async def start(self, service: Name, *, name: str | None = None, process: bool = False, **more: object) -> None:
        """Starts a service, on the ports that it had when it ran before. `name` tells a further replica apart, which
        may have `more` settings of its own.
        """
        name = name or service
        ports = (self._ports.private(), self._ports.private(), self._ports.private())
        port, metrics, rpc = self._listening.setdefault(name, ports)
        if process:
            self._running[name] = _Process(await self._launch(service, port, metrics, {"rpc_port": rpc, **more}))
            return
        settings = Settings(
            database_url=SecretStr(self.database_url),
            redis_url=SecretStr(self.redis_url),
            port=port,
            metrics_port=metrics,
            **{"rpc_port": rpc, **self._settings, **more},  # type: ignore[arg-type] # pydantic checks them
        )
        self._running[name] = _Task(SERVE[service](settings))

    async def stop(self, name: str) -> None:
        """Stops a service in order."""
        await self._running.pop(name).stop()

    async def kill(self, name: str) -> None:
        """Kills a service that runs as a process."""
        await self._running.pop(name).kill()

    def tell(self, name: str) -> None:
        """Tells a service that runs as a process to stop, and does not wait."""
        self._running[name].tell()

    async def gone(self, name: str) -> None:
        """Waits until a service that was told to stop has ended in order."""
        await self._running.pop(name).ended()

    async def status(self, name: str) -> tuple[int, dict[str, object]]:
        """What `/ready` of a service answers; 0 while nothing listens."""
        _, metrics, _ = self._listening[name]
        if name in self._running:
            self._running[name].check()
        try:
            async with self.http.get(f"http://127.0.0.1:{metrics}/ready") as answer:
                return answer.status, await answer.json()
        except aiohttp.ClientConnectionError:
            return 0, {}

    async def ready(self, name: str) -> None:
        """Waits until a service says that it can serve."""
        await eventually(lambda: self.status(name), lambda found: found[0] == 200)

    async def tracked(self) -> None:
        """Waits until a tracker leads: its heartbeat is written and its term is open."""

        async def leading() -> bool:
            beats = await self.pool.fetchval("SELECT heartbeat_at IS NOT NULL FROM conversation.epoch")
            return bool(beats) and await self.redis.exists(streams.receipts(0)) == 1

        await eventually(leading)

    @property
    def url(self) -> str:
        """Address of the gateway."""
        return self.url_of("gateway")

    def url_of(self, name: str) -> str:
        """Address of one of several gateways."""
        return f"http://127.0.0.1:{self._listening[name][0]}"

    def rpc_of(self, name: str = "gateway") -> str:
        """Where a gateway serves Host RPC."""
        return f"127.0.0.1:{self._listening[name][2]}"

    def metrics_of(self, name: str) -> int:
        """The port on which a service tells how it is."""
        return self._listening[name][1]

    async def connect(
        self, gateway: str = "gateway", query: str = "", *, headers: Mapping[str, str] | None = None
    ) -> SocketClient:
        """A WebSocket client of a gateway. `query`: of its URL, with the question mark."""
        client = await SocketClient.open(self.http, f"{self.url_of(gateway)}/ws{query}", headers=headers)
        self._clients.append(client)
        return client

    async def call(
        self,
        method: str,
        path: str,
        *,
        gateway: str = "gateway",
        headers: Mapping[str, str] | None = None,
        **more: object,
    ) -> tuple[int, dict[str, object]]:
        """Status and JSON body of one request. Every answer of the gateway is JSON."""
        url = self.url_of(gateway) + path
        async with self.http.request(method, url, headers=headers, **more) as answer:  # type: ignore[arg-type] # aiohttp's own options
            assert answer.content_type == "application/json", await answer.text()
            body = await answer.json()
            assert isinstance(body, dict)
            return answer.status, body

    async def session(self, session_id: str, task_id: str = "t") -> None:
        """Makes a session by SQL."""
        await self.pool.execute("INSERT INTO task_sessions (id, task_id) VALUES ($1, $2)", session_id, task_id)

    async def add(
        self, session_id: str, message_id: str, author: str = "user", content: str = "", task_id: str = "t"
    ) -> None:
        """Adds a message by SQL."""
        await self.pool.execute(ADD, message_id, session_id, task_id, author, content)

    async def revision(self, session_id: str) -> int:
        """The session's revision in the source."""
        found: int = await self.pool.fetchval(
            "SELECT revision FROM conversation_session_revisions WHERE session_id = $1", session_id
        )
        return found

    async def _launch(
        self, name: Name, port: int, metrics: int, more: Mapping[str, object]
    ) -> asyncio.subprocess.Process:
        environment = {
            **os.environ,
            "KANDEV_DATABASE_URL": self.database_url,
            "KANDEV_REDIS_URL": self.redis_url,
            "KANDEV_PORT": str(port),
            "KANDEV_METRICS_PORT": str(metrics),
            "KANDEV_DRAIN_SECONDS": "0",
            **{f"KANDEV_{key.upper()}": str(value) for key, value in {**self._settings, **more}.items()},
        }
        command = python("-m", "cli.main", "run", name)
        return await asyncio.create_subprocess_exec(*command, cwd=ROOT, env=environment, stderr=asyncio.subprocess.PIPE)
