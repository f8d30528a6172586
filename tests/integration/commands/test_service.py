"""The service as a whole: what it says while it waits, that it serves, and that restarts do not end it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import asyncpg
import pytest
from pydantic import SecretStr

from deploy.local.ports import Ports
from deploy.local.postgres import PostgresServer
from services.revision.main import describe, serve
from services.revision.schema.migrate import SchemaStatus, migrate
from shared.contracts.commands import CreateWorkspace
from shared.settings import Settings
from tests.integration.commands.conftest import PATIENCE
from tests.integration.commands.test_requests import Asker, asking


@asynccontextmanager
async def running(database_url: str, redis_url: str) -> AsyncIterator[str]:
    """The service on a port of its own; yields the address of its `/ready`."""
    with Ports() as ports:
        settings = Settings(
            database_url=SecretStr(database_url), redis_url=SecretStr(redis_url), metrics_port=ports.private()
        )
        service = asyncio.create_task(serve(settings))
        try:
            yield f"http://127.0.0.1:{settings.metrics_port}/ready"
            assert not service.done()
        finally:
            service.cancel()
            await asyncio.gather(service, return_exceptions=True)


async def reports(address: str, status: str, *words: str) -> None:
    """Returns once `/ready` says this, with all these words among its reasons."""
    async with aiohttp.ClientSession() as session, asyncio.timeout(3 * PATIENCE):
        while True:
            try:
                async with session.get(address) as response:
                    body = await response.json()
                    if body["status"] == status and all(word in str(body.get("reasons")) for word in words):
                        assert response.status == (503 if status == "starting" else 200)
                        return
            except aiohttp.ClientConnectionError:
                pass
            await asyncio.sleep(0.02)


async def test_it_waits_for_the_schema_then_serves_and_survives_postgresql(
    postgres_server: PostgresServer, redis_url: str
) -> None:
    async with asking(redis_url) as asker, running(postgres_server.url, redis_url) as address:
        await reports(address, "starting", "kandev-conversation migrate")
        await migrate(postgres_server.url)
        await reports(address, "ready")
        await asker.ask(CreateWorkspace(workspace_id="a", name="A"))
        postgres_server.kill()
        await reports(address, "starting", "PostgreSQL")
        waiting = asyncio.create_task(asker.ask(CreateWorkspace(workspace_id="b", name="B"), seconds=60))
        await asyncio.to_thread(postgres_server.start)
        await waiting
        await reports(address, "ready")
    connection = await asyncpg.connect(postgres_server.url)
    assert await connection.fetchval("SELECT count(*) FROM workspaces") == 2
    await connection.close()


async def test_it_waits_for_redis(database_url: str, redis_url: str) -> None:
    with Ports() as ports:
        nowhere = f"redis://127.0.0.1:{ports.private()}/0"
        async with running(database_url, nowhere) as address:
            await reports(address, "starting", "Redis")


async def test_without_logical_decoding_commands_are_served_and_the_service_says_so(
    postgres_server: PostgresServer, redis_url: str
) -> None:
    await migrate(postgres_server.url)
    connection = await asyncpg.connect(postgres_server.url)
    await connection.execute("CREATE ROLE writer LOGIN PASSWORD 'writer'")
    await connection.execute("GRANT USAGE ON SCHEMA public, conversation TO writer")
    await connection.execute("GRANT ALL ON ALL TABLES IN SCHEMA public, conversation TO writer")
    await connection.execute("GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA conversation TO writer")
    await connection.close()
    url = f"postgresql://writer:writer@127.0.0.1:{postgres_server.port}/kandev"
    async with asking(redis_url) as asker, running(url, redis_url) as address:
        await reports(address, "degraded", "REPLICATION")
        await served(asker)


async def served(asker: Asker) -> None:
    for _ in range(2):
        await asker.ask(CreateWorkspace(workspace_id="a", name="A"))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (SchemaStatus(0, 7), "run `kandev-conversation migrate`"),
        (SchemaStatus(8, 7), "a later one"),
    ],
)
def test_a_schema_of_another_version_names_what_to_do(found: SchemaStatus, words: str) -> None:
    assert words in describe(found)
    assert describe(SchemaStatus(7, 7)) == ""
