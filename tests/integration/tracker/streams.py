"""The receipt streams as a test reads them, and trackers to fill them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import cast

from pydantic import SecretStr
from redis.asyncio import Redis

from services.revision.tracker.tracker import Tracker
from shared.broker.connection import BROKER_ERRORS, connect
from shared.broker.receipts import ReceiptWriter
from shared.contracts import streams
from shared.contracts.receipts import RECEIPT, ChangeReceipt, Receipt, RemovedReceipt
from tests.support.waiting import eventually

PARTITIONS = 8


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry as a gateway reads it."""

    partition: int
    session_id: str
    kind: str
    term: int
    sequence: int
    receipt: Receipt


@dataclass(frozen=True, slots=True)
class Published:
    """Everything in the streams."""

    client: Redis

    async def entries(self) -> list[Entry]:
        """Every entry, partition by partition, each in its order."""
        found = []
        for partition in range(PARTITIONS):
            # The cast: redis-py's result covers every protocol; with protocol 2 and undecoded replies it is this.
            rows = cast("list[tuple[bytes, dict[bytes, bytes]]]", await self.client.xrange(streams.receipts(partition)))
            for _, fields in rows:
                receipt = RECEIPT.validate_json(fields[b"r"])
                session_id, kind = fields[b"s"].decode(), fields[b"k"].decode()
                found.append(Entry(partition, session_id, kind, int(fields[b"t"]), int(fields[b"q"]), receipt))
        return found

    async def intervals(self, session_id: str) -> list[tuple[int, int]]:
        """The intervals published for one session, in order."""
        return [
            (entry.receipt.base_revision, entry.receipt.revision)
            for entry in await self.entries()
            if isinstance(entry.receipt, ChangeReceipt | RemovedReceipt) and entry.session_id == session_id
        ]

    async def reached(self, session_id: str, revision: int) -> None:
        """Waits until the streams hold this revision of the session."""

        async def there() -> bool:
            try:
                return any(found >= revision for _, found in await self.intervals(session_id))
            except BROKER_ERRORS:
                return False

        await eventually(there)

    async def terms(self) -> dict[int, list[Entry]]:
        """The entries of each term."""
        found: dict[int, list[Entry]] = {}
        for entry in await self.entries():
            found.setdefault(entry.term, []).append(entry)
        return found


@asynccontextmanager
async def published(redis_url: str) -> AsyncIterator[Published]:
    """The streams of one Redis, emptied first."""
    async with connect(SecretStr(redis_url)) as client:
        await client.flushall()
        yield Published(client)


@asynccontextmanager
async def tracking(database_url: str, redis_url: str, slot_seconds: float = 20) -> AsyncIterator[Tracker]:
    """A running tracker, ended afterwards."""
    async with connect(SecretStr(redis_url)) as client:
        tracker = Tracker(SecretStr(database_url), ReceiptWriter(client, PARTITIONS), slot_seconds)
        task = asyncio.create_task(tracker.run())
        try:
            yield tracker
        finally:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.result()


async def leads(tracker: Tracker) -> int:
    """Waits until the tracker leads with a term open in Redis; that term."""

    async def leading() -> int | None:
        return tracker.status.term if tracker.status.state == "leading" else None

    term = await eventually(leading)
    assert term is not None
    return term


async def stands_by(tracker: Tracker) -> None:
    """Waits until the tracker decodes without leading."""

    async def standby() -> bool:
        return tracker.status.state == "standby"

    await eventually(standby)


async def says(tracker: Tracker, part: str) -> None:
    """Waits until the tracker is degraded for this reason."""

    async def degraded() -> bool:
        return tracker.status.state == "degraded" and part in (tracker.status.reason or "")

    await eventually(degraded)
