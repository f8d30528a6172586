"""Each finding of the doctor, on servers where it is so."""

import json
import time
from collections.abc import Sequence
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import psycopg
import pytest
from redis.asyncio import Redis
from redis.typing import EncodableT, FieldT

from cli.diagnosis import judge as judging
from cli.diagnosis.gather import look_at_database, look_at_gateway, look_at_redis
from cli.diagnosis.judge import Finding, State, judge_database, judge_gateway, judge_redis, judge_services
from deploy.local import postgres
from deploy.local.postgres import PostgresServer
from deploy.local.redis import RedisServer
from services.revision.schema.migrate import migrate
from shared.broker.presence import PRESENT_MS
from shared.contracts.streams import COMMANDS, PRESENCE, READERS_GROUP, READS, REVISION_GROUP, receipts
from shared.version import VERSION
from tests.integration.cli.command import run
from tests.support.stack import Stack
from tests.support.waiting import eventually

Fields = dict[FieldT, EncodableT]

NOW: Fields = {"service": "gateway", "name": "g", "version": VERSION}


def wrong(findings: Sequence[Finding]) -> dict[str, State]:
    """What is not as it should be, by aspect. Each says what to do."""
    found = [finding for finding in findings if finding.state is not State.OK]
    assert all(finding.advice for finding in found)
    return {finding.aspect: finding.state for finding in found}


async def of_database(url: str) -> dict[str, State]:
    """What is wrong with a database."""
    return wrong(judge_database(await look_at_database(url)))


@pytest.fixture
async def alive(database_url: str) -> str:
    """A database with a tracker's heartbeat of this moment."""
    connection = await asyncpg.connect(database_url)
    await connection.execute("SELECT conversation.mint_epoch('a test')")
    await connection.execute("UPDATE conversation.epoch SET heartbeat_at = clock_timestamp()")
    await connection.close()
    return database_url


async def test_a_stack_that_runs_is_sound(database_url: str, redis_url: str) -> None:
    async with Stack(database_url, redis_url) as stack:
        await stack.start_all()
        found = await run(
            "doctor",
            *("--json", "--url", stack.url),
            KANDEV_DATABASE_URL=database_url,
            KANDEV_REDIS_URL=redis_url,
        )
        report = json.loads(found.out)
        assert {each["aspect"]: each["found"] for each in report["findings"] if each["state"] != "ok"} == {}
        assert found.code == 0
        running = {each["aspect"]: each["found"] for each in report["findings"] if each["part"] == "services"}
        assert running == {
            **dict.fromkeys(("revision", "reader", "gateway"), "1 running"),
            "versions": VERSION,
            "clocks": "in step",
        }


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT", {}),
        ("UPDATE conversation.epoch SET heartbeat_at = NULL", {"tracker heartbeat": State.WARN}),
        (
            "UPDATE conversation.epoch SET heartbeat_at = clock_timestamp() - interval '6 s'",
            {"tracker heartbeat": State.WARN},
        ),
        (
            "UPDATE conversation.epoch SET heartbeat_at = clock_timestamp() - interval '1 min'",
            {"tracker heartbeat": State.FAIL},
        ),
        (
            "ALTER TABLE task_session_turns DISABLE TRIGGER conversation_rows_updated",
            {"triggers": State.FAIL, "capture": State.FAIL},
        ),
        (
            "DROP TRIGGER conversation_message_arriving ON task_session_messages",
            {"triggers": State.FAIL},
        ),
        (
            "ALTER TABLE task_session_messages REPLICA IDENTITY DEFAULT",
            {"replica identities": State.FAIL, "capture": State.FAIL},
        ),
        (
            "ALTER PUBLICATION conversation_receipts DROP TABLE conversation.epoch",
            {"publication": State.FAIL, "capture": State.FAIL},
        ),
        (
            "ALTER PUBLICATION conversation_receipts SET (publish = 'insert, update')",
            {"capture": State.FAIL},
        ),
        (
            "ALTER TABLE task_session_messages ALTER metadata DROP DEFAULT, "
            "ALTER metadata TYPE jsonb USING metadata::jsonb",
            {"columns": State.FAIL},
        ),
        (
            "INSERT INTO conversation.migrations (version, name, checksum) VALUES (9999, 'later', 'x')",
            {"schema": State.FAIL},
        ),
    ],
)
async def test_what_is_wrong_in_a_database(alive: str, statement: str, expected: dict[str, State]) -> None:
    connection = await asyncpg.connect(alive)
    await connection.execute(statement)
    await connection.close()
    assert await of_database(alive) == expected


async def test_a_database_without_the_schema(empty_database_url: str) -> None:
    assert await of_database(empty_database_url) == {"schema": State.FAIL}


async def test_a_role_that_may_not_do_what_is_needed(alive: str) -> None:
    parts = urlsplit(alive)
    role = f"doctor_{parts.path.removeprefix('/test_')[:12]}"
    owner = await asyncpg.connect(alive)
    await owner.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'secret'")
    await owner.execute(
        f"GRANT USAGE ON SCHEMA conversation TO {role}; GRANT SELECT ON conversation.migrations TO {role}"
    )
    try:
        address = urlunsplit(parts._replace(netloc=f"{role}:secret@{parts.hostname}:{parts.port}"))
        found = await of_database(address)
    finally:
        await owner.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
        await owner.close()
    assert found["role"] is State.FAIL
    assert found["rights"] is State.FAIL


async def test_a_database_that_is_away() -> None:
    facts = await look_at_database("postgresql://me:hunter2@127.0.0.1:1/db")
    assert wrong(judge_database(facts)) == {"reachable": State.FAIL}
    assert "hunter2" not in str(facts)


async def restarted(server: PostgresServer) -> str:
    """A server's address, started with the settings of this moment, with a schema and a heartbeat."""
    server.stop()
    server.start()
    await migrate(server.url)
    connection = await asyncpg.connect(server.url)
    await connection.execute("SELECT conversation.mint_epoch('a test')")
    await connection.execute("UPDATE conversation.epoch SET heartbeat_at = clock_timestamp()")
    await connection.close()
    return server.url


@pytest.mark.parametrize(
    ("setting", "value", "aspect", "state"),
    [
        ("wal_level", "replica", "wal level", State.FAIL),
        ("max_slot_wal_keep_size", "-1", "slot limit", State.WARN),
        ("idle_in_transaction_session_timeout", "0", "idle transactions", State.WARN),
        ("max_wal_senders", "0", "wal senders", State.WARN),
    ],
)
async def test_settings_of_a_server(  # noqa: PLR0917 - a row of the table
    postgres_server: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
    setting: str,
    value: str,
    aspect: str,
    state: State,
) -> None:
    monkeypatch.setitem(postgres.SETTINGS, setting, value)
    found = await of_database(await restarted(postgres_server))
    assert found == {aspect: state}


async def test_slots_that_are_all_used_keep_log_and_lose_it(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(postgres.SETTINGS, "max_replication_slots", "1")
    monkeypatch.setitem(postgres.SETTINGS, "max_slot_wal_keep_size", "1MB")
    monkeypatch.setattr(judging, "RETAINED_LIMIT", -1)
    address = await restarted(postgres_server)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SELECT pg_create_physical_replication_slot('taken', true)")
        found = await of_database(address)
        assert found.items() >= {"replication slots": State.WARN, "retained log": State.WARN}.items()
        assert "lost slots" not in found
        for _ in range(4):
            connection.execute("SELECT pg_logical_emit_message(true, 'a', 'b')")
            connection.execute("SELECT pg_switch_wal()")
        connection.execute("CHECKPOINT")
        assert (await of_database(address))["lost slots"] is State.WARN


@pytest.fixture
async def redis(own_redis: Redis) -> Redis:
    """A Redis of the test's own, as it is while all services run."""
    for stream, group in ((READS, READERS_GROUP), (COMMANDS, REVISION_GROUP)):
        await own_redis.xgroup_create(stream, group, mkstream=True)
    await own_redis.xadd(receipts(0), {"s": ""})
    for service in ("revision", "reader", "gateway"):
        await own_redis.xadd(PRESENCE, {**NOW, "service": service, "name": service, "clock": int(time.time() * 1000)})
    return own_redis


async def of_redis(server: RedisServer) -> dict[str, State]:
    """What is wrong with a Redis, and with the processes that reach it."""
    facts = await look_at_redis(server.url)
    return wrong([*judge_redis(facts), *judge_services(facts, VERSION)])


async def test_what_is_wrong_in_redis(redis: Redis, redis_server: RedisServer) -> None:
    assert await of_redis(redis_server) == {}
    await redis.config_set("maxmemory-policy", "allkeys-lru")
    assert await of_redis(redis_server) == {"eviction": State.WARN}
    await redis.config_set("maxmemory-policy", "noeviction")
    await redis.xgroup_destroy(READS, READERS_GROUP)
    await redis.delete(COMMANDS, receipts(0))
    assert await of_redis(redis_server) == {READS: State.WARN, COMMANDS: State.WARN, "receipts": State.WARN}
    redis_server.stop()
    assert await of_redis(redis_server) == {"reachable": State.FAIL}


async def test_commands_that_nobody_carries_out(redis: Redis, redis_server: RedisServer) -> None:
    """As where each of them fails: everything else about the processes is as it should be."""
    await redis.delete(COMMANDS)
    seconds, _ = await redis.time()
    await redis.xadd(COMMANDS, {"__data__": b"{}"}, id=f"{(seconds - 60) * 1000}-0")
    await redis.xgroup_create(COMMANDS, REVISION_GROUP, id="0")
    assert await of_redis(redis_server) == {f"{COMMANDS} handled": State.WARN}


async def test_what_is_wrong_with_the_processes(redis: Redis, redis_server: RedisServer) -> None:
    def clock(seconds: float = 0.0) -> int:
        return int((time.time() + seconds) * 1000)

    await redis.xadd(PRESENCE, {**NOW, "version": "0.0.1", "clock": clock()})
    assert await of_redis(redis_server) == {"versions": State.WARN}
    await redis.xadd(PRESENCE, {**NOW, "clock": clock(-3)})
    assert await of_redis(redis_server) == {"clocks": State.WARN}
    await redis.xadd(PRESENCE, {**NOW, "clock": clock()})
    assert await of_redis(redis_server) == {}
    entries: tuple[Fields, ...] = ({"service": "x"}, {b"\xff": b"\xff"}, {**NOW, "version": "0", "clock": "noon"})
    for garbage in entries:
        await redis.xadd(PRESENCE, garbage)
    assert await of_redis(redis_server) == {}


async def test_who_said_nothing_lately_is_gone(redis: Redis, redis_server: RedisServer) -> None:
    await redis.delete(PRESENCE)
    seconds, _ = await redis.time()
    await redis.xadd(PRESENCE, {**NOW, "clock": "1"}, id=f"{(seconds * 1000) - PRESENT_MS - 1000}-0")
    assert await of_redis(redis_server) == dict.fromkeys(("revision", "reader", "gateway"), State.FAIL)


async def test_clocks_that_differ_from_this_machines(
    alive: str, redis: Redis, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time
    for seconds, expected in ((3600.0, {"clock": State.WARN}), (0.0, {})):
        monkeypatch.setattr("cli.diagnosis.gather.time.time", lambda ahead=seconds: real() + ahead)
        assert await of_database(alive) == expected
        assert wrong(judge_redis(await look_at_redis(redis_server.url))) == expected


async def test_a_gateway_that_waits_and_one_that_is_away(database_url: str, redis_url: str) -> None:
    async with Stack(database_url, redis_url) as stack:
        await stack.start("gateway")
        # Without a reader it never becomes ready.
        await eventually(lambda: stack.status("gateway"), lambda found: found[0] == 503)
        facts = await look_at_gateway(f"http://127.0.0.1:{stack.metrics_of('gateway')}")
        assert wrong(judge_gateway(facts)) == {"ready": State.FAIL}
    away = await look_at_gateway("http://127.0.0.1:1")
    assert wrong(judge_gateway(away)) == {"reachable": State.FAIL}
