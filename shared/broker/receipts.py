"""The receipt streams: one writer (the leading tracker), and a reader in every gateway, without a group.

An entry's fields: `s` session id, `k` kind, `t` term, `q` sequence in this partition and term, `r` the receipt as JSON.
Session and kind stand apart,
so that a gateway passes over sessions it does not follow without parsing their rows.
"""

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import cast

from redis.asyncio import Redis

from shared.broker.connection import BROKER_ERRORS, RETRY_SECONDS, stop_if_cancelled
from shared.broker.cursor import Cursor, entry_key, id_after, last_id, last_ids, size_of
from shared.contracts import streams
from shared.contracts.receipts import ResyncReceipt

logger = logging.getLogger(__name__)

KEEP_SECONDS = 60.0
"""A receipt is kept this long at most. Whoever was away longer finds a hole and checks its revisions."""

KEEP_BYTES = 8 << 20
"""Most bytes of receipts kept per partition: with 8 partitions at most 64 MiB of Redis memory, twice that for a minute
after a change of leader,
which does not know the sizes that its predecessor wrote."""

READ_COUNT = 256
"""Most entries of one read per partition: at most 256 MiB of largest entries, in practice a few hundred kB."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A receipt to be written. `payload` is its JSON."""

    session_id: str
    kind: str
    payload: bytes


@dataclass(slots=True)
class _Kept:
    entries: deque[tuple[float, int, bytes]] = field(default_factory=deque)
    size: int = 0


class ReceiptWriter:
    """Writes one leader's receipts. Not safe for two tasks at once: order is the point of it.

    Every method raises redis-py's errors. After one, some entries may have been written: begin a new term (T2).
    """

    def __init__(self, client: Redis, partitions: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._partitions = partitions
        self._clock = clock
        self._term = 0
        self._sequence = [0] * partitions
        self._kept = [_Kept() for _ in range(partitions)]

    async def begin_term(self, term: int, epoch: str) -> None:
        """Opens a term: sequence 1 of every partition is a resync (T2)."""
        self._term = term
        self._sequence = [0] * self._partitions
        await self.publish_everywhere("resync", ResyncReceipt(epoch=epoch).model_dump_json().encode())

    async def publish_everywhere(self, kind: str, payload: bytes) -> None:
        """Writes one entry that concerns no single session to every partition."""
        await self._write([(partition, Outgoing("", kind, payload)) for partition in range(self._partitions)])

    async def publish(self, entries: Sequence[Outgoing]) -> None:
        """Writes entries in order, in one round trip."""
        await self._write([(streams.partition_of(entry.session_id, self._partitions), entry) for entry in entries])

    async def trim(self) -> None:
        """Drops what is past its age or over the bytes kept. To be called every few seconds, whether or not anything is
        written.
        """
        for partition in range(self._partitions):
            if (oldest := self._forget(partition)) is not None:
                await self._client.xtrim(streams.receipts(partition), minid=oldest, approximate=False)

    async def _write(self, entries: Sequence[tuple[int, Outgoing]]) -> None:
        pipeline = self._client.pipeline(transaction=False)
        for partition, entry in entries:
            self._sequence[partition] += 1
            pipeline.xadd(
                streams.receipts(partition),
                {
                    "s": entry.session_id,
                    "k": entry.kind,
                    "t": self._term,
                    "q": self._sequence[partition],
                    "r": entry.payload,
                },
            )
        ids = await pipeline.execute()
        now = self._clock()
        for (partition, entry), entry_id in zip(entries, ids, strict=True):
            kept = self._kept[partition]
            kept.entries.append((now, len(entry.payload), entry_id))
            kept.size += len(entry.payload)
        if any(kept.size > 2 * KEEP_BYTES for kept in self._kept):
            await self.trim()

    def _forget(self, partition: int) -> bytes | None:
        """The id from which on entries are kept, if any are to be dropped."""
        kept, now, dropped = self._kept[partition], self._clock(), None
        while kept.entries and (now - kept.entries[0][0] > KEEP_SECONDS or kept.size > KEEP_BYTES):
            _, size, dropped = kept.entries.popleft()
            kept.size -= size
        return None if dropped is None else id_after(dropped)


@dataclass(frozen=True, slots=True)
class ReceiptEntry:
    """An entry as it was read, its receipt not yet parsed.

    `written_ms`: when Redis took it, in milliseconds since 1970; 0 where that is not known.
    """

    partition: int
    session_id: str
    kind: str
    term: int
    sequence: int
    payload: bytes
    written_ms: int = 0


@dataclass(frozen=True, slots=True)
class Interruption:
    """The reader lost its connection, or a stream began anew: entries may have been missed in these partitions."""

    partitions: frozenset[int]


class ReceiptReader:
    """Reads every partition from now on and hands over batches in order. Survives the loss, flush and replacement of
    Redis.
    """

    def __init__(self, client: Redis, partitions: int) -> None:
        self._client = client
        self._numbers = {streams.receipts(partition).encode(): partition for partition in range(partitions)}
        self._cursor = Cursor(client, {})
        self.connected = False

    async def start(self) -> None:
        """Takes the streams' present ends as the place to read from. Raises redis-py's errors; what is written later
        will be read.
        """
        ends = await last_ids(self._client, [name.decode() for name in self._numbers])
        self._cursor = Cursor(self._client, ends)
        self.connected = True

    async def run(self, receive: Callable[[Sequence[ReceiptEntry] | Interruption], None]) -> None:
        """Reads until it is cancelled. `receive` must not block: it is called on the event loop, once per batch."""
        while True:
            stop_if_cancelled()
            try:
                if not self.connected:
                    receive(await self._resume())
                entries = await self._read()
                began_anew = await self._cursor.look()
            except BROKER_ERRORS:
                self.connected = False
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if entries:
                receive(entries)
            if began_anew:
                receive(Interruption(frozenset(self._numbers[name.encode()] for name in began_anew)))

    async def _resume(self) -> Interruption:
        await self._cursor.resume()
        self.connected = True
        return Interruption(frozenset(self._numbers.values()))

    async def _read(self) -> list[ReceiptEntry]:
        entries: list[ReceiptEntry] = []
        for stream, rows in await self._cursor.read(READ_COUNT):
            partition = self._numbers[stream]
            entries.extend(entry for name, fields in rows if (entry := _parsed(partition, name, fields)) is not None)
        return entries


async def earlier_receipts(
    client: Redis, partition: int, sessions: Collection[str], seconds: float, most: int
) -> dict[str, deque[bytes]]:
    """What a partition still holds of some sessions: their receipts as JSON, in order, none older by so many seconds
    than the partition's newest, and of each session the latest, at most so many bytes. Raises redis-py's errors.
    """
    stream = streams.receipts(partition)
    end = await last_id(client, stream)
    least = b"%d-0" % max(0, entry_key(end)[0] - int(seconds * 1000))
    found: dict[str, deque[bytes]] = {}
    sizes: Counter[str] = Counter()
    while True:
        rows = cast("list[tuple[bytes, dict[bytes, bytes]]]", await client.xrange(stream, least, end, READ_COUNT))
        for _, fields in rows:
            session_id = fields.get(b"s", b"").decode(errors="replace")
            if session_id in sessions and b"r" in fields:
                kept, payload = found.setdefault(session_id, deque()), fields[b"r"]
                kept.append(payload)
                sizes[session_id] += len(payload)
                while sizes[session_id] > most:
                    sizes[session_id] -= len(kept.popleft())
        if len(rows) < READ_COUNT:
            return found
        least = id_after(rows[-1][0])


def _parsed(partition: int, entry_id: bytes, fields: dict[bytes, bytes]) -> ReceiptEntry | None:
    """The entry; `None` for one that no tracker of this version wrote. Should it have counted, it leaves a hole."""
    try:
        return ReceiptEntry(
            partition=partition,
            session_id=fields[b"s"].decode(),
            kind=fields[b"k"].decode(),
            term=int(fields[b"t"]),
            sequence=int(fields[b"q"]),
            payload=fields[b"r"],
            written_ms=int(entry_id.partition(b"-")[0]),
        )
    except (KeyError, ValueError):
        logger.warning(
            "an entry of receipt partition %d cannot be read and is passed over: %d fields, %d bytes",
            partition,
            len(fields),
            size_of(fields),
        )
        return None
