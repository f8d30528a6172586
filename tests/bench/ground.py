"""The servers and services of one run: embedded PostgreSQL and Redis, three databases, and what is started on them."""

import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import aiohttp
import asyncpg
from pydantic import SecretStr
from redis.asyncio import Redis

from deploy.local.ports import Ports
from deploy.local.postgres import PostgresServer
from deploy.local.redis import RedisServer
from services.revision.schema.migrate import migrate
from shared.broker.connection import connect
from shared.contracts import streams
from tests.bench.process import Program
from tests.support.waiting import eventually

WRITERS = 8
"""Connections of the bench's own writers."""

_DROP_CAPTURE = """
DO $$
DECLARE found record;
BEGIN
    FOR found IN SELECT tgname, tgrelid::regclass AS relation FROM pg_trigger
                  WHERE NOT tgisinternal AND tgrelid::regclass::text IN (
                        'task_sessions', 'task_session_messages', 'task_session_turns',
                        'conversation_session_revisions')
    LOOP
        EXECUTE format('DROP TRIGGER %I ON %s', found.tgname, found.relation);
    END LOOP;
END $$;
DROP PUBLICATION conversation_receipts;
ALTER TABLE task_session_messages REPLICA IDENTITY DEFAULT;
ALTER TABLE task_session_turns REPLICA IDENTITY DEFAULT;
"""

_DECODED = """
SELECT coalesce(bool_and(confirmed_flush_lsn >= $1::text::pg_lsn), false) FROM pg_replication_slots
 WHERE database = current_database()
"""


@dataclass(frozen=True, slots=True)
class Gateway:
    """A gateway process and the ports that it answers on."""

    program: Program
    port: int
    rpc_port: int


@dataclass
class Ground:
    """`database` is the product's; `twin` has the same schema and triggers and no services; `bare` has the tables and
    their indexes alone.
    """

    database: str
    twin: str
    bare: str
    redis_url: SecretStr
    redis: Redis
    pool: asyncpg.Pool
    twin_pool: asyncpg.Pool
    bare_pool: asyncpg.Pool
    http: aiohttp.ClientSession
    ports: Ports
    folder: Path
    _started: AsyncExitStack
    services: dict[str, Program] = field(default_factory=dict)
    port: int = 0
    rpc_port: int = 0

    @property
    def url(self) -> str:
        """Where the gateway answers."""
        return f"http://127.0.0.1:{self.port}"

    async def track(self) -> None:
        """Starts the revision service, unless it runs, and waits until its tracker leads."""
        if "revision" not in self.services:
            self.services["revision"] = await self._started.enter_async_context(self._service("revision"))
            await eventually(self._leads)

    async def caught_up(self) -> None:
        """Waits until the tracker has decoded all that was committed. It says so once a second."""
        end = await self.pool.fetchval("SELECT pg_current_wal_flush_lsn()::text")
        await eventually(lambda: self.pool.fetchval(_DECODED, end))

    async def serve(self) -> None:
        """Starts all services, unless they run, and waits until the gateway serves."""
        await self.track()
        if "gateway" not in self.services:
            self.services["reader"] = await self._started.enter_async_context(self._service("reader"))
            gateway = await self._started.enter_async_context(self.gateway())
            self.services["gateway"], self.port, self.rpc_port = gateway.program, gateway.port, gateway.rpc_port

    @asynccontextmanager
    async def gateway(self, **settings: str) -> AsyncIterator[Gateway]:
        """A gateway of its own, with these variables of its environment, once it serves. The other services have to
        run.
        """
        port, rpc_port = self.ports.private(), self.ports.private()
        async with self._service(
            "gateway", KANDEV_PORT=str(port), KANDEV_RPC_PORT=str(rpc_port), **settings
        ) as program:
            await eventually(lambda: self._serves(port))
            yield Gateway(program, port, rpc_port)

    def _service(self, name: str, **more: str) -> Program:
        environment = {
            "KANDEV_DATABASE_URL": self.database,
            "KANDEV_REDIS_URL": self.redis_url.get_secret_value(),
            "KANDEV_METRICS_PORT": str(self.ports.private()),
            "KANDEV_LOG_LEVEL": "ERROR",
            "KANDEV_CONNECTIONS_PER_ADDRESS": "20000",
            "KANDEV_SCOPES_PER_USER": "1000000",
            **more,
        }
        return Program(sys.executable, "-m", "cli.main", "run", name, environment=environment)

    async def _leads(self) -> bool:
        beats = await self.pool.fetchval("SELECT heartbeat_at IS NOT NULL FROM conversation.epoch")
        return bool(beats) and bool(await self.redis.exists(streams.receipts(0)))

    async def _serves(self, port: int) -> bool:
        try:
            async with self.http.get(f"http://127.0.0.1:{port}/ready") as answer:
                return answer.status == 200
        except aiohttp.ClientConnectionError:
            return False


@asynccontextmanager
async def prepared() -> AsyncIterator[Ground]:
    """Starts the servers and stops everything at the end."""
    async with AsyncExitStack() as ending:
        folder = ending.enter_context(_folder())
        ports = ending.enter_context(Ports())
        postgres = PostgresServer(folder / "postgres", ports.private())
        valkey = RedisServer(folder / "redis", ports.private())
        for server in (postgres, valkey):
            ending.callback(server.stop)
            server.start()
        await _count_statements(postgres)
        database, twin, bare = await _databases(postgres.url, ("product", "twin", "bare"))
        pool, twin_pool, bare_pool = [
            await asyncpg.create_pool(url, min_size=WRITERS, max_size=WRITERS) for url in (database, twin, bare)
        ]
        for each in (pool, twin_pool, bare_pool):
            ending.callback(each.terminate)
        await bare_pool.execute(_DROP_CAPTURE)
        redis_url = SecretStr(valkey.url)
        redis = connect(redis_url)
        ending.push_async_callback(redis.aclose)
        http = await ending.enter_async_context(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)))
        started = await ending.enter_async_context(AsyncExitStack())
        yield Ground(
            database=database,
            twin=twin,
            bare=bare,
            redis_url=redis_url,
            redis=redis,
            pool=pool,
            twin_pool=twin_pool,
            bare_pool=bare_pool,
            http=http,
            ports=ports,
            folder=folder,
            _started=started,
        )


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder that the database's user may enter and that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="kandev-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


async def _count_statements(postgres: PostgresServer) -> None:
    """Makes PostgreSQL able to count statements; it does so only while it is asked to (`tests.bench.statements`)."""
    connection = await asyncpg.connect(postgres.url)
    try:
        await connection.execute("ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'")
        await connection.execute("ALTER SYSTEM SET pg_stat_statements.track = 'none'")
    finally:
        await connection.close()
    postgres.stop()
    postgres.start()


async def _databases(server_url: str, names: Sequence[str]) -> list[str]:
    """Addresses of new databases with the schema."""
    await migrate(server_url)
    template = urlsplit(server_url).path.removeprefix("/")
    administration = urlunsplit(urlsplit(server_url)._replace(path="/postgres"))
    connection = await asyncpg.connect(administration)
    try:
        for name in names:
            await connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
    finally:
        await connection.close()
    return [urlunsplit(urlsplit(server_url)._replace(path=f"/{name}")) for name in names]
