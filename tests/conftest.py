"""Real servers for tests: given by URL, in containers, or the embedded ones; and a fresh database for whoever asks.

The first that applies:

- `KANDEV_TEST_DATABASE_URL` (a superuser's address, `wal_level=logical`) and `KANDEV_TEST_REDIS_URL` (tests flush it);
- containers, where a Docker engine answers and has the images, or `KANDEV_TEST_CONTAINERS=1` allows to fetch them;
- the embedded servers.

Every worker of a parallel run starts its own servers.
"""

import http.client
import os
import socket
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
import pytest_asyncio
from psycopg import sql
from pydantic import SecretStr
from redis.asyncio import Redis

from deploy.local.ports import Ports
from deploy.local.postgres import PostgresServer
from deploy.local.redis import RedisServer
from shared.broker.connection import connect
from tests.support.logs import LOG, marked

POSTGRES_IMAGE = "postgres:17"
REDIS_IMAGE = "redis:8"
POSTGRES_SETTINGS = "-c wal_level=logical -c max_wal_senders=32 -c max_replication_slots=32 -c max_connections=200"
DROP_SECONDS = 10.0
DROP_IDLE_SLOT = """
    SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s AND active_pid IS NULL
"""


@contextmanager
def server_folder() -> Iterator[Path]:
    """A folder for one server's data that another user may enter and that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="kandev-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


class EngineConnection(http.client.HTTPConnection):
    """One request to the Docker engine, on its socket file or its TCP port."""

    def __init__(self) -> None:
        self._address = urlsplit(os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock")
        super().__init__(self._address.hostname or "localhost", self._address.port or 2375, timeout=3)

    def connect(self) -> None:
        """Connects to the socket file where the address names one."""
        if self._address.scheme != "unix":
            super().connect()
            return
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(3)
        self.sock.connect(self._address.path)


def containers_allowed(image: str) -> bool:
    """Whether a Docker engine answers and may be used for this image, and for the one that clears up behind a run that
    was killed.
    """
    return image_allowed(image) and image_allowed(reaper_image())


def reaper_image() -> str:
    """The image of the container that removes the others once the run's process is gone."""
    from testcontainers.core.config import testcontainers_config  # noqa: PLC0415 - as below: slow, and seldom needed

    return testcontainers_config.ryuk_image


def image_allowed(image: str) -> bool:
    """Whether a Docker engine answers and has this image, or may fetch it.

    Asked of the engine itself: its Python client leaks a socket, and so a warning, when no engine is there.
    """
    connection = EngineConnection()
    try:
        connection.request("GET", f"/images/{image}/json")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return status == 200 or (status == 404 and os.environ.get("KANDEV_TEST_CONTAINERS") == "1")


@contextmanager
def postgres_container() -> Iterator[str]:
    """Superuser's address of a PostgreSQL in a container."""
    from testcontainers.community.postgres import PostgresContainer  # noqa: PLC0415

    with PostgresContainer(POSTGRES_IMAGE, driver=None).with_command(f"postgres {POSTGRES_SETTINGS}") as container:
        yield container.get_connection_url()


@contextmanager
def redis_container() -> Iterator[str]:
    """Address of a Redis in a container."""
    from testcontainers.community.redis import RedisContainer  # noqa: PLC0415

    with RedisContainer(REDIS_IMAGE) as container:
        yield f"redis://{container.get_container_host_ip()}:{container.get_exposed_port(6379)}/0"


@pytest.fixture(autouse=True)
def nothing_planted_is_logged() -> Iterator[None]:
    """Fails a test during which a service logged what was planted."""
    begun = LOG.end
    with LOG.listening():
        yield
    found = marked(LOG.since(begun))
    assert not found, f"a line of a log holds what no log may hold: {found[0]}"


@pytest.fixture(scope="session")
def ports() -> Iterator[Ports]:
    """Ports for servers that a test starts; no other worker is given the same ones."""
    with Ports() as ports:
        yield ports


@pytest.fixture(scope="session")
def postgres_url(ports: Ports) -> Iterator[str]:
    """A superuser's address of a PostgreSQL with `wal_level=logical`, shared by the tests of this worker."""
    if given := os.environ.get("KANDEV_TEST_DATABASE_URL"):
        yield given
    elif containers_allowed(POSTGRES_IMAGE):
        with postgres_container() as url:
            yield url
    else:
        with (
            server_folder() as folder,
            PostgresServer(folder / "postgres", ports.private(), disposable=True) as server,
        ):
            yield server.url


@pytest.fixture(scope="session")
def redis_url(ports: Ports) -> Iterator[str]:
    """Address of a Redis that belongs to this worker alone: a test may flush it."""
    if given := os.environ.get("KANDEV_TEST_REDIS_URL"):
        yield given
    elif containers_allowed(REDIS_IMAGE):
        with redis_container() as url:
            yield url
    else:
        with server_folder() as folder, RedisServer(folder / "redis", ports.private()) as server:
            yield server.url


@pytest.fixture
def make_database(postgres_url: str) -> Callable[[], AbstractContextManager[str]]:
    """Makes further empty databases: `with make_database() as url`."""
    return lambda: new_database(postgres_url)


@pytest.fixture
def empty_database_url(postgres_url: str) -> Iterator[str]:
    """Address of a new, empty database; dropped afterwards, whoever is still connected."""
    with new_database(postgres_url) as url:
        yield url


@pytest.fixture
def database_url(postgres_url: str, migrated_template: str) -> Iterator[str]:
    """Address of a new database with all migrations applied; dropped afterwards, whoever is still connected."""
    with new_database(postgres_url, template=migrated_template) as url:
        yield url


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def migrated_template(postgres_url: str) -> AsyncIterator[str]:
    """Name of a migrated database that others are copied from; it takes no connections."""
    from services.revision.schema.migrate import migrate  # noqa: PLC0415 - tests of other parts need no schema

    with new_database(postgres_url) as url:
        await migrate(url)
        name = urlsplit(url).path.removeprefix("/")
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(sql.Identifier(name)))
        yield name


@pytest.fixture
def redis_server(ports: Ports) -> Iterator[RedisServer]:
    """A started Redis for one test, which may stop, kill, flush and start it."""
    with server_folder() as folder, RedisServer(folder / "redis", ports.private()) as server:
        yield server


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Redis]:
    """A client of this worker's Redis, emptied for the test."""
    async with connect(SecretStr(redis_url)) as client:
        await client.flushdb()
        yield client


@pytest.fixture
async def own_redis(redis_server: RedisServer) -> AsyncIterator[Redis]:
    """A client of the Redis that belongs to this test."""
    async with connect(SecretStr(redis_server.url)) as client:
        yield client


@pytest.fixture
def postgres_server(ports: Ports) -> Iterator[PostgresServer]:
    """A started PostgreSQL with an empty database for one test, which may stop, kill and start it."""
    with server_folder() as folder, PostgresServer(folder / "postgres", ports.private(), disposable=True) as server:
        yield server


@contextmanager
def new_database(postgres_url: str, template: str = "template0") -> Iterator[str]:
    """Address of a database made for this block; it and every replication slot on it are gone afterwards."""
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template))
        )
    try:
        yield urlunsplit(urlsplit(postgres_url)._replace(path=f"/{name}"))
    finally:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            drop_slots(connection, name)
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def drop_slots(connection: psycopg.Connection, database: str) -> None:
    """Ends the replication of one database: PostgreSQL drops no database that a slot still uses."""
    deadline = time.monotonic() + DROP_SECONDS
    while slots := connection.execute(
        "SELECT slot_name, active_pid FROM pg_replication_slots WHERE database = %s", [database]
    ).fetchall():
        if time.monotonic() > deadline:
            pytest.fail(f"{len(slots)} replication slots on {database} did not end")
        for slot, pid in slots:
            if pid is None:
                connection.execute(DROP_IDLE_SLOT, [slot])
            else:
                connection.execute("SELECT pg_terminate_backend(%s)", [pid])
