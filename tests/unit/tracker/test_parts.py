"""The small parts: ring, visibility, publisher, slot names, errors in words, and when an epoch is due."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import asyncpg
import psycopg
import pytest
from redis.exceptions import ConnectionError as RedisUnreachable

from services.revision.epoch import STALE, Identity, Recorded, must_mint
from services.revision.tracker.backoff import LEAST_PAUSE, MOST_PAUSE, Backoff
from services.revision.tracker.drafts import SessionChange, Transaction
from services.revision.tracker.filling import PATIENCE_SECONDS, PAUSES, visible
from services.revision.tracker.prerequisites import explain
from services.revision.tracker.publisher import PIPELINE_BYTES, PIPELINE_ENTRIES, Entry, Everywhere, Publisher
from services.revision.tracker.receipts import encode, encode_epoch
from services.revision.tracker.reminders import Reminders
from services.revision.tracker.ring import Ring
from services.revision.tracker.stream import slot_name
from shared.broker.receipts import Outgoing
from shared.contracts.receipts import RECEIPT, ChangeReceipt, EpochReceipt

HERE = Identity("7000000000000000000", 1, 16384, 16400)
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def transaction(xid: int, size: int = 1) -> Transaction:
    return Transaction(xid, xid, 0, "e", minted=False, drafts=(), broken=None, size=size)


def xids(transactions: list[Transaction]) -> list[int]:
    return [found.xid for found in transactions]


def test_a_ring_keeps_the_last_seconds() -> None:
    ring = Ring(seconds=3)
    for at in range(6):
        ring.add(transaction(at), now=at)
    assert xids(ring.drain(now=5.5)) == [3, 4, 5]
    assert xids(ring.drain(now=5.5)) == []
    assert ring.size == 0


def test_a_ring_keeps_no_more_than_its_bytes() -> None:
    ring = Ring(most=10)
    for xid in range(5):
        ring.add(transaction(xid, size=4), now=0)
    assert ring.size == 8
    ring.add(transaction(9, size=11), now=0)
    assert (ring.size, xids(ring.drain(now=0))) == (0, [])


def test_pauses_grow_with_quick_failures_and_start_again_after_a_success() -> None:
    backoff = Backoff()
    pauses = [backoff.after(0) for _ in range(10)]
    ceilings = [min(LEAST_PAUSE * 2**attempt, MOST_PAUSE) for attempt in range(10)]
    assert all(ceiling / 2 <= pause <= ceiling for pause, ceiling in zip(pauses, ceilings, strict=True))
    assert backoff.after(MOST_PAUSE + 1) <= LEAST_PAUSE


@pytest.mark.parametrize(
    ("xid", "snapshot", "seen"),
    [
        (99, "100:105:100,103", True),
        (101, "100:105:100,103", True),
        (103, "100:105:100,103", False),
        (105, "100:105:", False),
        (2**32 - 1, f"{5 * 2**32 + 2}:{5 * 2**32 + 2}:", True),
        (1, f"{5 * 2**32 + 2}:{5 * 2**32 + 2}:", True),
        (3, f"{5 * 2**32 - 2}:{5 * 2**32 - 2}:", False),
        (7, f"{5 * 2**32 + 5}:{5 * 2**32 + 9}:{5 * 2**32 + 7}", False),
    ],
)
def test_visibility_follows_ids_that_wrap_around(xid: int, snapshot: str, seen: bool) -> None:
    assert visible(xid, snapshot) is seen


def test_the_pauses_of_filling_are_its_patience() -> None:
    assert sum(PAUSES) == pytest.approx(PATIENCE_SECONDS)


@pytest.mark.parametrize(
    ("recorded", "due"),
    [
        (Recorded(None, None), "first installation"),
        (Recorded(NOW, None), "first installation"),
        (Recorded(None, HERE), "first installation"),
        (Recorded(NOW, HERE), None),
        (Recorded(NOW, HERE, breached=True), "capture is whole again"),
        (Recorded(NOW - STALE, HERE), None),
        (Recorded(NOW - STALE - timedelta(microseconds=1), HERE), "cold start: no tracker was running"),
        (Recorded(NOW, Identity("8", 1, 16384, 16400)), "another history: changed system_identifier"),
        (Recorded(NOW, Identity(HERE.system_identifier, 2, 16384, 16400)), "another history: changed timeline"),
        (
            Recorded(NOW, Identity(HERE.system_identifier, 1, 1, 2)),
            "another history: changed database_oid, revisions_oid",
        ),
    ],
)
def test_when_an_epoch_is_due(recorded: Recorded, due: str | None) -> None:
    """R3."""
    assert must_mint(recorded, HERE, NOW) == due


@dataclass
class Streams:
    """Streams that refuse while `away`, and keep what they took."""

    away: bool = False
    taken: list[object] = field(default_factory=list)

    async def begin_term(self, term: int, epoch: str) -> None:
        self._take(("term", term, epoch))

    async def publish(self, entries: Sequence[Outgoing]) -> None:
        self._take([entry.payload for entry in entries])

    async def publish_everywhere(self, kind: str, payload: bytes) -> None:
        self._take((kind, payload))

    async def trim(self) -> None:
        self._take("trim")

    def _take(self, what: object) -> None:
        if self.away:
            raise RedisUnreachable
        self.taken.append(what)


def entry(payload: bytes) -> Outgoing:
    return Outgoing("s", "change", payload)


async def test_entries_keep_their_order_around_one_for_everywhere() -> None:
    streams = Streams()
    publisher = Publisher(streams)
    await publisher.begin(3, "e")
    await publisher.publish([entry(b"1"), entry(b"2"), Everywhere("epoch", b"f"), entry(b"3")])
    assert streams.taken == [("term", 3, "e"), [b"1", b"2"], ("epoch", b"f"), [b"3"]]


async def test_one_round_trip_carries_what_is_there_up_to_its_bounds() -> None:
    streams = Streams()
    publisher = Publisher(streams)
    await publisher.begin(3, "e")
    entries: list[Entry] = [entry(b"x")] * (PIPELINE_ENTRIES + 1)
    await publisher.publish(entries)
    await publisher.publish([entry(b"y" * (PIPELINE_BYTES // 2 + 1))] * 2)
    assert [len(taken) for taken in streams.taken[1:] if isinstance(taken, list)] == [PIPELINE_ENTRIES, 1, 1, 1]


async def test_an_error_ends_the_term_and_drops_instead_of_queueing() -> None:
    """T2."""
    streams = Streams()
    publisher = Publisher(streams)
    assert await publisher.begin(3, "e")
    streams.away = True
    await publisher.publish([entry(b"1")])
    assert (publisher.term, publisher.dropped) == (None, 1)
    assert not await publisher.begin(4, "e")
    streams.away = False
    await publisher.publish([entry(b"2")])
    assert await publisher.begin(5, "e")
    await publisher.publish([entry(b"3")])
    assert streams.taken == [("term", 3, "e"), ("term", 5, "e"), [b"3"]]
    assert publisher.dropped == 0


async def test_a_failed_trim_ends_the_term_too() -> None:
    streams = Streams()
    publisher = Publisher(streams)
    await publisher.begin(3, "e")
    streams.away = True
    await publisher.trim()
    assert publisher.term is None


async def test_nothing_is_written_after_leading_has_ended() -> None:
    streams = Streams()
    publisher = Publisher(streams)
    await publisher.begin(3, "e")
    publisher.close()
    await publisher.publish([entry(b"1"), Everywhere("epoch", b"f")])
    assert streams.taken == [("term", 3, "e")]


def test_slot_names_are_valid_and_of_one_process_alone() -> None:
    names = {slot_name() for _ in range(20)}
    assert len(names) == 20
    assert all(len(name) <= 63 and name.replace("_", "").isalnum() and name.islower() for name in names)


@pytest.mark.parametrize(
    ("error", "part"),
    [
        (psycopg.errors.ConfigurationLimitExceeded("x"), "max_replication_slots"),
        (
            psycopg.OperationalError("FATAL: number of requested standby connections exceeds max_wal_senders"),
            "max_wal_senders",
        ),
        (psycopg.OperationalError("FATAL: no pg_hba.conf entry for host"), "pg_hba.conf has no line"),
        (psycopg.OperationalError("FATAL: permission denied to start WAL sender"), "REPLICATION"),
        (asyncpg.InvalidPasswordError("x"), "the password is wrong"),
        (asyncpg.UndefinedTableError('relation "secret"'), "UndefinedTableError (42P01)"),
        (ConnectionRefusedError("secret"), "PostgreSQL does not answer: ConnectionRefusedError"),
    ],
)
def test_errors_say_what_to_set_and_nothing_else(error: Exception, part: str) -> None:
    assert part in explain(error)
    assert "secret" not in explain(error)


def test_an_epoch_receipt_is_its_contract() -> None:
    assert RECEIPT.validate_json(encode_epoch("f")) == EpochReceipt(epoch="f")


def test_an_incomplete_change_is_its_contract() -> None:
    made = Transaction(1, 1, 1_500_000, "e", False, (SessionChange("s", 3, 5, None),), None, 0)
    [outgoing] = encode(made)
    assert RECEIPT.validate_json(outgoing.payload) == ChangeReceipt(
        session_id="s", epoch="e", base_revision=3, revision=5, complete=False, committed_at="2000-01-01T00:00:01.5Z"
    )


def test_a_lasting_fault_is_told_at_first_and_once_a_minute() -> None:
    reminders = Reminders()
    assert [reminders.due("a", float(second)) for second in range(200)].count(True) == 4
    assert [reminders.due("b", 200.0), reminders.due("b", 200.0), reminders.due("a", 200.0)] == [True, False, True]
    reminders.over()
    assert reminders.due("a", 200.0)
