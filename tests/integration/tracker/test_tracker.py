"""The tracker on real servers: terms, take-over, outages, epochs (R1 to R3, T1 to T4)."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from deploy.local.postgres import PostgresServer
from deploy.local.redis import RedisServer
from services.revision.schema.migrate import migrate
from services.revision.tracker.leadership import LOCK_KEY
from services.revision.tracker.pgoutput import Decoder, Message
from shared.contracts.receipts import EpochReceipt, ResyncReceipt
from tests.integration.tracker.conftest import SEED
from tests.integration.tracker.streams import (
    PARTITIONS,
    Entry,
    Published,
    leads,
    published,
    stands_by,
    tracking,
)
from tests.support.programs import python
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[3]
TURN = "INSERT INTO task_session_turns (id, task_session_id, task_id) VALUES (gen_random_uuid()::text, $1, 't')"
REVISION = "SELECT revision FROM conversation_session_revisions WHERE session_id = $1"

OWN_STREAM = """
SELECT r.* FROM pg_stat_replication r JOIN pg_replication_slots s ON s.active_pid = r.pid
WHERE s.database = current_database()
"""


@pytest.fixture
async def streams(redis_url: str) -> AsyncIterator[Published]:
    async with published(redis_url) as found:
        yield found


@asynccontextmanager
async def replica(database_url: str, redis_url: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A tracker in a process of its own; killed afterwards."""
    process = await asyncio.create_subprocess_exec(
        *python("-m", "tests.integration.tracker.replica"),
        cwd=ROOT, env={**os.environ, "DATABASE_URL": database_url, "REDIS_URL": redis_url},
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def shows(process: asyncio.subprocess.Process, line: str) -> None:
    """Reads a replica's states until this one."""
    assert process.stdout is not None
    async with asyncio.timeout(30):
        while (await process.stdout.readline()).decode().strip() != line:
            pass


async def epoch_of(connection: asyncpg.Connection) -> tuple[str, str]:
    row = await connection.fetchrow("SELECT epoch, reason FROM conversation.epoch")
    return row["epoch"], row["reason"]


def assert_begun(entries: list[Entry]) -> None:
    """T2: a term opens with a resync in every partition, and counts without a hole from there."""
    for partition in range(PARTITIONS):
        held = [entry for entry in entries if entry.partition == partition]
        assert [entry.sequence for entry in held] == list(range(1, len(held) + 1))
        assert isinstance(held[0].receipt, ResyncReceipt)
        assert not any(isinstance(entry.receipt, ResyncReceipt) for entry in held[1:])


async def test_a_term_opens_with_a_resync_in_every_partition_and_counts(
    database_url: str, redis_url: str, writer: asyncpg.Connection, streams: Published
) -> None:
    async with tracking(database_url, redis_url) as tracker:
        term = await leads(tracker)
        for _ in range(5):
            await writer.execute(TURN, "s1")
            await writer.execute(TURN, "s2")
        await streams.reached("s1", 6)
        await streams.reached("s2", 6)
        terms = await streams.terms()
        assert list(terms) == [term]
        assert_begun(terms[term])
        assert await streams.intervals("s1") == [(n, n + 1) for n in range(1, 6)]


async def test_commits_while_nobody_tracked_are_announced_by_the_next_terms_resync(
    database_url: str, redis_url: str, writer: asyncpg.Connection, streams: Published
) -> None:
    async with tracking(database_url, redis_url) as tracker:
        first = await leads(tracker)
    await writer.execute(TURN, "s1")
    async with tracking(database_url, redis_url) as tracker:
        second = await leads(tracker)
        assert second > first
        assert await streams.intervals("s1") == []
        assert_begun((await streams.terms())[second])


async def test_a_leader_killed_under_load_loses_nothing_to_a_hot_standby(
    database_url: str, redis_url: str, writer: asyncpg.Connection, streams: Published
) -> None:
    async with replica(database_url, redis_url) as process:
        await shows(process, "leading True")
        async with tracking(database_url, redis_url) as standby:
            await stands_by(standby)
            epoch = await epoch_of(writer)
            for number in range(400):
                if number == 200:
                    process.kill()
                await writer.execute(TURN, f"s{number % 2 + 1}")
            await leads(standby)
            for session_id in ("s1", "s2"):
                await streams.reached(session_id, 201)
                assert set(await streams.intervals(session_id)) == {(n, n + 1) for n in range(1, 201)}
            assert await epoch_of(writer) == epoch
            assert len(await streams.terms()) == 2


async def test_a_stopped_leader_loses_its_lock_and_comes_back_as_a_standby(
    database_url: str, redis_url: str, writer: asyncpg.Connection, streams: Published
) -> None:
    async with replica(database_url, redis_url) as process:
        await shows(process, "leading True")
        async with tracking(database_url, redis_url) as standby:
            await stands_by(standby)
            epoch = await epoch_of(writer)
            process.send_signal(signal.SIGSTOP)
            await leads(standby)
            await writer.execute(TURN, "s1")
            await streams.reached("s1", 2)
            assert await epoch_of(writer) == epoch
            process.send_signal(signal.SIGCONT)
            await shows(process, "standby False")
            assert await leads(standby) == max(await streams.terms())


async def test_a_leader_without_its_lock_stops_publishing_and_begins_a_new_term(
    database_url: str, redis_url: str, writer: asyncpg.Connection, streams: Published
) -> None:
    async with tracking(database_url, redis_url) as tracker:
        first = await leads(tracker)
        taker = await asyncpg.connect(database_url)
        await writer.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted "
            "AND classid = ($1::bigint >> 32)::oid AND objid = ($1::bigint & 4294967295)::oid "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
            LOCK_KEY,
        )
        await taker.fetchval("SELECT pg_advisory_lock($1)", LOCK_KEY)
        await stands_by(tracker)
        assert tracker.status.term is None
        await writer.execute(TURN, "s1")
        await taker.close()
        assert await leads(tracker) > first
        await streams.reached("s1", 2)
        assert_begun((await streams.terms())[await leads(tracker)])


async def test_a_message_that_cannot_be_decoded_costs_the_slot_and_no_more(
    database_url: str, redis_url: str, writer: asyncpg.Connection, streams: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode, spoilt = Decoder.decode, asyncio.Event()

    def spoil(decoder: Decoder, message: bytes) -> Message | None:
        """Cuts the next insert short, as a broken link would."""
        if message[:1] == b"I" and not spoilt.is_set():
            spoilt.set()
            return decode(decoder, message[:-1])
        return decode(decoder, message)

    async with tracking(database_url, redis_url) as tracker:
        first = await leads(tracker)
        monkeypatch.setattr(Decoder, "decode", spoil)
        await writer.execute(TURN, "s1")

        async def anew() -> bool:
            return (tracker.status.term or 0) > first

        await eventually(anew)
        await writer.execute(TURN, "s1")
        await streams.reached("s1", 3)
        assert await streams.intervals("s1") == [(2, 3)]
        assert_begun((await streams.terms())[await leads(tracker)])


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "lost"])
async def test_a_standby_replays_what_its_own_slot_saw_and_nothing_older(
    database_url: str, redis_url: str, writer: asyncpg.Connection, streams: Published, kept: bool
) -> None:
    """R2: the ring dies with its slot."""
    leader = await asyncpg.connect(database_url)
    await leader.fetchval("SELECT pg_advisory_lock($1)", LOCK_KEY)
    async with tracking(database_url, redis_url) as tracker:
        await stands_by(tracker)
        await writer.execute(TURN, "s1")
        at = await writer.fetchval("SELECT pg_current_wal_insert_lsn()::text")

        async def received() -> bool:
            return bool(await writer.fetchval(f"SELECT flush_lsn >= $1::text::pg_lsn FROM ({OWN_STREAM}) s", at))

        await eventually(received)
        if not kept:
            await writer.execute(f"SELECT pg_terminate_backend(pid) FROM ({OWN_STREAM}) s")

            async def noticed() -> bool:
                return tracker.status.state == "degraded"

            await eventually(noticed)
            await stands_by(tracker)
        await leader.close()
        await leads(tracker)
        await writer.execute(TURN, "s1")
        await streams.reached("s1", 3)
        assert await streams.intervals("s1") == ([(1, 2), (2, 3)] if kept else [(2, 3)])


async def test_the_first_tracker_mints_and_a_planned_handover_keeps_the_epoch(
    database_url: str, redis_url: str, writer: asyncpg.Connection, streams: Published
) -> None:
    installed, _ = await epoch_of(writer)
    async with tracking(database_url, redis_url) as tracker:
        await leads(tracker)
        minted, reason = await epoch_of(writer)
        assert (minted != installed, reason) == (True, "first installation")

        async def announced() -> bool:
            entries = await streams.entries()
            told = {entry.partition for entry in entries if entry.receipt == EpochReceipt(epoch=minted)}
            return len(told) == PARTITIONS

        await eventually(announced)
    async with tracking(database_url, redis_url) as tracker:
        await leads(tracker)
        assert (await epoch_of(writer))[0] == minted


@pytest.mark.parametrize(
    "case",
    [
        ("heartbeat_at = clock_timestamp() - interval '11 s'", "cold start: no tracker was running"),
        ("timeline = timeline + 1", "another history: changed timeline"),
        ("system_identifier = '1'", "another history: changed system_identifier"),
        ("database_oid = 1, revisions_oid = 1", "another history: changed database_oid, revisions_oid"),
    ],
)
async def test_another_history_mints(
    database_url: str, redis_url: str, writer: asyncpg.Connection, streams: Published, case: tuple[str, str]
) -> None:
    """R3."""
    broken, reason = case
    async with tracking(database_url, redis_url) as tracker:
        await leads(tracker)
    kept, _ = await epoch_of(writer)
    await writer.execute(f"UPDATE conversation.epoch SET {broken}")
    async with tracking(database_url, redis_url) as tracker:
        await leads(tracker)
        minted, why = await epoch_of(writer)
        assert minted != kept
        assert why == reason


async def test_broken_history_mints(
    database_url: str, redis_url: str, writer: asyncpg.Connection, streams: Published
) -> None:
    """T4."""
    async with tracking(database_url, redis_url) as tracker:
        await leads(tracker)
        kept, _ = await epoch_of(writer)
        async with writer.transaction():
            await writer.execute("SET LOCAL session_replication_role = replica")
            await writer.execute(TURN, "s1")

        async def minted() -> bool:
            epoch, reason = await epoch_of(writer)
            return epoch != kept and reason.startswith("history broken: 1 rows of 1 sessions")

        await eventually(minted)
        await writer.execute(TURN, "s1")
        await streams.reached("s1", 2)
        [change] = [entry.receipt for entry in await streams.entries() if entry.session_id == "s1"]
        assert change.epoch == (await epoch_of(writer))[0]


async def test_a_blocked_slot_is_reported_and_made_as_soon_as_it_can_be(
    database_url: str, redis_url: str, writer: asyncpg.Connection, streams: Published
) -> None:
    idle = await asyncpg.connect(database_url, server_settings={"application_name": "somebody's import"})
    await idle.execute("BEGIN")
    await idle.execute(TURN, "s1")
    pid = await idle.fetchval("SELECT pg_backend_pid()")
    async with tracking(database_url, redis_url, slot_seconds=2) as tracker:

        async def reported() -> bool:
            reason = tracker.status.reason or ""
            return tracker.status.state == "degraded" and f'process {pid} (application "somebody\'s import"' in reason

        await eventually(reported)

        async def given_up() -> bool:
            return "no slot after 2 s" in (tracker.status.reason or "")

        await eventually(given_up)
        await idle.execute("COMMIT")
        await idle.close()
        await leads(tracker)
        await writer.execute(TURN, "s1")
        await streams.reached("s1", 3)


async def test_redis_killed_and_started_again_begins_a_term(
    database_url: str, redis_server: RedisServer, writer: asyncpg.Connection
) -> None:
    async with published(redis_server.url) as streams, tracking(database_url, redis_server.url) as tracker:
        first = await leads(tracker)
        await asyncio.to_thread(redis_server.kill)

        async def noticed() -> bool:
            await writer.execute(TURN, "s1")
            return tracker.status.state == "degraded"

        await eventually(noticed)
        assert tracker.status.reason == "Redis does not answer: receipts are dropped until it does"
        await asyncio.to_thread(redis_server.start)
        second = await leads(tracker)
        assert second > first
        await writer.execute(TURN, "s1")
        await streams.reached("s1", await writer.fetchval(REVISION, "s1"))
        terms = await streams.terms()
        assert_begun(terms[second])


async def test_postgres_restarted(postgres_server: PostgresServer, redis_url: str, streams: Published) -> None:
    await migrate(postgres_server.url)
    connection = await asyncpg.connect(postgres_server.url)
    await connection.execute(SEED)
    async with tracking(postgres_server.url, redis_url) as tracker:
        first = await leads(tracker)
        epoch = await epoch_of(connection)
        await connection.close()
        await asyncio.to_thread(postgres_server.stop)

        async def degraded() -> bool:
            return tracker.status.state == "degraded"

        await eventually(degraded)
        await asyncio.to_thread(postgres_server.start)
        assert await leads(tracker) > first
        connection = await asyncpg.connect(postgres_server.url)
        await connection.execute(TURN, "s1")
        await streams.reached("s1", 2)
        assert await epoch_of(connection) == epoch
        await connection.close()
