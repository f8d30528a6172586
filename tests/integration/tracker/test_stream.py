"""The stream itself: backpressure, feedback, and the epoch behind its first commit."""

import asyncio

import asyncpg
import pytest

from services.revision.epoch import read_epoch
from services.revision.tracker import stream as module
from services.revision.tracker.assembly import Assembler
from services.revision.tracker.stream import ReplicationStream, StreamEnded
from tests.integration.tracker.log import Log, blocking, intervals
from tests.support.waiting import eventually

SLOTS = "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"
MINT = "SELECT conversation.mint_epoch('test')"
TURN = "INSERT INTO task_session_turns (id, task_session_id, task_id) VALUES (gen_random_uuid()::text, 's1', 't')"


async def test_reading_pauses_while_nothing_is_taken_and_feedback_goes_on(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "QUEUE_TRANSACTIONS", 8)
    for _ in range(100):
        await log.writer.execute(TURN)

    async def paused() -> bool:
        return log.stream.paused

    await eventually(paused)
    replied = "SELECT reply_time FROM pg_stat_replication WHERE pid = $1"
    before = await log.writer.fetchval(replied, log.stream.backend_pid)

    async def feedback() -> bool:
        return bool(await log.writer.fetchval(replied, log.stream.backend_pid) > before)

    await eventually(feedback)
    assert log.stream.paused
    transactions = await log.since()
    assert [intervals(transaction) for transaction in transactions] == [{"s1": (n, n + 1)} for n in range(1, 101)]
    assert not log.stream.paused


async def test_a_transaction_too_large_for_the_queue_passes(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUEUE_BYTES", 2)
    transactions = await log.changes(TURN, TURN, TURN)
    assert len(transactions) == 3


async def test_an_ended_stream_says_so_after_what_came_before(log: Log) -> None:
    await log.writer.execute(TURN)
    at = await log.writer.fetchval("SELECT pg_current_wal_insert_lsn()::text")
    received = "SELECT flush_lsn >= $2::text::pg_lsn FROM pg_stat_replication WHERE pid = $1"

    async def arrived() -> bool:
        return bool(await log.writer.fetchval(received, log.stream.backend_pid, at))

    await eventually(arrived)
    await log.writer.execute("SELECT pg_terminate_backend($1)", log.stream.backend_pid)

    async def gone() -> bool:
        return not await log.writer.fetchval(SLOTS)

    await eventually(gone)
    assert len(await log.stream.take(None)) == 1
    with pytest.raises(StreamEnded, match="terminating connection"):
        await log.stream.take(None)


async def test_wake_ends_an_empty_wait(log: Log) -> None:
    waiting = asyncio.ensure_future(log.stream.take(None))
    log.stream.wake()
    assert await waiting == []


async def test_the_slot_goes_with_the_connection(database_url: str, writer: asyncpg.Connection) -> None:
    stream = await ReplicationStream.connect(database_url)
    await stream.create_slot(20, lambda: blocking(writer, stream))
    assert await writer.fetchval(SLOTS) == 1
    await stream.close()

    async def gone() -> bool:
        return not await writer.fetchval(SLOTS)

    await eventually(gone)


async def test_a_mint_before_the_slot_is_read_and_one_behind_it_is_decoded_as_well(
    database_url: str, writer: asyncpg.Connection
) -> None:
    """R2: whatever the order, no commit is published under an epoch that was over before it."""
    await writer.execute(MINT)
    stream = await ReplicationStream.connect(database_url)
    try:
        await stream.create_slot(20, lambda: blocking(writer, stream))
        await writer.execute(TURN)
        await writer.execute(MINT)
        epoch = await read_epoch(writer)
        assert epoch == await writer.fetchval("SELECT epoch FROM conversation.epoch")
        await stream.start(Assembler(epoch))
        log = Log(stream, writer, epoch)
        before, after = [*await log.changes(TURN)]
        assert [before.epoch, after.epoch] == [epoch, epoch]
        assert not after.minted
    finally:
        await stream.close()


async def test_the_epoch_is_not_read_past_a_mint_that_is_about_to_commit(
    database_url: str, log: Log, writer: asyncpg.Connection
) -> None:
    minter, reader = await asyncpg.connect(database_url), await asyncpg.connect(database_url)
    try:
        minting = minter.transaction()
        await minting.start()
        minted = await minter.fetchval(MINT)
        reading = asyncio.ensure_future(read_epoch(reader))
        waits = "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $1"

        async def waiting() -> bool:
            return bool(await writer.fetchval(waits, reader.get_server_pid()))

        await eventually(waiting)
        await minting.commit()
        assert await reading == minted
    finally:
        await minter.close()
        await reader.close()
