"""Where a reader without a group stands in its streams, and what becomes of that when a stream begins anew (G9)."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from redis.asyncio import Redis
from redis.exceptions import ResponseError
from redis.typing import KeyT, StreamIdT

from shared.broker.connection import BLOCK_MS

Entries = list[tuple[bytes, list[tuple[bytes, dict[bytes, bytes]]]]]
"""Per stream: its name and (id, fields) of every entry."""

START = b"0-0"

LOOK_SECONDS = 1.0
"""A stream that was silent this long is looked at: it may be silent only because it began anew, below the position."""

_LAST_NUMBER = (1 << 64) - 1
"""The greatest that either half of an id can be."""


def entry_key(entry_id: bytes) -> tuple[int, int]:
    """An entry id as numbers, for comparing: (milliseconds, sequence)."""
    milliseconds, _, sequence = entry_id.partition(b"-")
    return int(milliseconds), int(sequence or b"0")


def id_after(entry_id: bytes) -> bytes:
    """The least id above this one; the greatest of all is its own."""
    milliseconds, sequence = entry_key(entry_id)
    if sequence < _LAST_NUMBER:
        return b"%d-%d" % (milliseconds, sequence + 1)
    return b"%d-0" % (milliseconds + 1) if milliseconds < _LAST_NUMBER else entry_id


def size_of(fields: Mapping[bytes, bytes]) -> int:
    """Bytes of an entry's names and values."""
    return sum(len(name) + len(value) for name, value in fields.items())


async def last_id(client: Redis, stream: str) -> bytes:
    """The id of the stream's newest entry, trimmed ones included; `0-0` when the stream does not exist.

    A concrete id, never `$`: with `$` every read starts at what is newest then, and entries between two reads are lost.
    """
    try:
        info = await client.xinfo_stream(stream)
    except ResponseError as error:
        if "no such key" in str(error).lower():
            return START
        raise
    found = info["last-generated-id"]
    return found if isinstance(found, bytes) else str(found).encode()


async def last_ids(client: Redis, streams: Sequence[str]) -> dict[str, bytes]:
    """`last_id` of every stream."""
    return {stream: await last_id(client, stream) for stream in streams}


def resumed(held: Mapping[str, bytes], found: Mapping[str, bytes]) -> tuple[dict[str, bytes], frozenset[str]]:
    """Where to go on, and the streams that began anew.

    A stream whose last id is lower than the one already read is not the stream that was read: Redis was flushed, or
    replaced by one whose clock or
    content is behind. Waiting there for a higher id would pass over everything until its clock catches up. An id far in
    the future needs no rule of its own: while its stream lasts, every later entry is above it.
    """
    began_anew = frozenset(stream for stream, at in held.items() if entry_key(found[stream]) < entry_key(at))
    return {stream: found[stream] if stream in began_anew else at for stream, at in held.items()}, began_anew


class Cursor:
    """One reader's place in its streams. Methods raise redis-py's errors; call `resume` after one."""

    def __init__(
        self, client: Redis, positions: Mapping[str, bytes], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._positions = dict(positions)
        self._heard: set[str] = set()
        self._clock = clock
        self._looked_at = clock()

    def position(self, stream: str) -> bytes:
        """The id of the last entry read."""
        return self._positions[stream]

    async def read(self, count: int) -> Entries:
        """The next entries, at most `count` per stream, in order; waits up to `BLOCK_MS` for one."""
        # The casts: redis-py's parameter is an invariant dict, and its result covers the forms of every protocol; with
        # protocol 2 and undecoded replies there is this one.
        positions = cast("dict[KeyT, StreamIdT]", {**self._positions})
        found = cast("Entries", await self._client.xread(positions, count=count, block=BLOCK_MS) or [])
        for name, rows in found:
            stream = name.decode()
            self._positions[stream] = rows[-1][0]
            self._heard.add(stream)
        return found

    async def look(self) -> frozenset[str]:
        """Streams that began anew, found every `LOOK_SECONDS` among those silent since; reading goes on at their ends.

        Asked after every read: a connection that stays up tells nothing of a flush, and other streams may be busy.
        """
        now = self._clock()
        if now - self._looked_at < LOOK_SECONDS:
            return frozenset()
        self._looked_at = now
        silent = [stream for stream in self._positions if stream not in self._heard]
        self._heard.clear()
        return await self._compare(silent)

    async def resume(self) -> frozenset[str]:
        """Streams that began anew while the connection was lost; reading goes on at their ends."""
        return await self._compare(list(self._positions))

    def rewind(self, stream: str) -> None:
        """Reads a stream from its start: for one whose every entry is for this reader."""
        self._positions[stream] = START

    async def _compare(self, streams: Sequence[str]) -> frozenset[str]:
        held = {stream: self._positions[stream] for stream in streams}
        positions, began_anew = resumed(held, await last_ids(self._client, streams))
        self._positions.update(positions)
        return began_anew
