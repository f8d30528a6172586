"""Where the server refuses, the tracker stays up, says what to set, and goes on once it is set."""

import asyncio
import socket
import uuid
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import psycopg
import pytest

from deploy.local import postgres
from deploy.local.postgres import PostgresServer
from services.revision.schema.migrate import migrate
from tests.integration.tracker.streams import leads, says, tracking


async def test_a_database_without_the_schema(empty_database_url: str, redis_url: str) -> None:
    async with tracking(empty_database_url, redis_url) as tracker:
        await says(tracker, "run the migrations")
        await migrate(empty_database_url)
        await leads(tracker)


async def test_a_role_that_may_not_replicate(database_url: str, redis_url: str, writer: asyncpg.Connection) -> None:
    role = f"test_{uuid.uuid4().hex}"
    await writer.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'secret'")
    try:
        parts = urlsplit(database_url)
        address = urlunsplit(parts._replace(netloc=f"{role}:secret@{parts.hostname}:{parts.port}"))
        async with tracking(address, redis_url) as tracker:
            await says(tracker, f'ALTER ROLE "{role}" REPLICATION')
    finally:
        await writer.execute(f"DROP ROLE {role}")


async def test_a_server_that_is_not_there(redis_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"postgresql://nobody@127.0.0.1:{taken.getsockname()[1]}/nothing"
    async with tracking(address, redis_url) as tracker:
        await says(tracker, "PostgreSQL does not answer: ConnectionRefusedError")


async def restarted(server: PostgresServer) -> str:
    """Migrates the server's database and starts it again, with the settings as they are by then; its address."""
    await migrate(server.url)
    await asyncio.to_thread(server.stop)
    await asyncio.to_thread(server.start)
    return server.url


async def test_a_server_without_logical_decoding(
    postgres_server: PostgresServer, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(postgres.SETTINGS, "wal_level", "replica")
    async with tracking(await restarted(postgres_server), redis_url) as tracker:
        await says(tracker, "wal_level is replica: set wal_level=logical and restart PostgreSQL")


async def test_a_server_without_a_free_slot(
    postgres_server: PostgresServer, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(postgres.SETTINGS, "max_replication_slots", "1")
    address = await restarted(postgres_server)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SELECT pg_create_physical_replication_slot('taken')")
        async with tracking(address, redis_url) as tracker:
            await says(tracker, "raise max_replication_slots")
            connection.execute("SELECT pg_drop_replication_slot('taken')")
            await leads(tracker)


async def test_a_server_without_a_free_sender(
    postgres_server: PostgresServer, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(postgres.SETTINGS, "max_wal_senders", "1")
    address = await restarted(postgres_server)
    async with tracking(address, redis_url) as first:
        await leads(first)
        async with tracking(address, redis_url) as second:
            await says(second, "raise max_wal_senders")
