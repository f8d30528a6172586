"""Where a reader without a group stands in its streams, and what a reconnect does to that (G9)."""

from collections.abc import Mapping, Sequence
from typing import cast

from redis.asyncio import Redis
from redis.exceptions import ResponseError
from redis.typing import KeyT, StreamIdT

from shared.broker.connection import BLOCK_MS

Entries = list[tuple[bytes, list[tuple[bytes, dict[bytes, bytes]]]]]
"""Per stream: its name and (id, fields) of every entry."""

START = b"0-0"


def entry_key(entry_id: bytes) -> tuple[int, int]:
    """An entry id as numbers, for comparing: (milliseconds, sequence)."""
    milliseconds, _, sequence = entry_id.partition(b"-")
    return int(milliseconds), int(sequence or b"0")


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
    """Where to go on after a reconnect, and the streams that began anew.

    A stream whose last id is lower than the one already read is not the stream that was read: Redis was flushed, or
    replaced by one whose clock or
    content is behind. Waiting there for a higher id would pass over everything until its clock catches up.
    """
    began_anew = frozenset(stream for stream, at in held.items() if entry_key(found[stream]) < entry_key(at))
    return {stream: found[stream] if stream in began_anew else at for stream, at in held.items()}, began_anew


async def read_after(client: Redis, positions: Mapping[str, bytes], count: int) -> Entries:
    """Entries behind the positions, in order per stream; waits up to `BLOCK_MS` for one. Raises redis-py's errors."""
    # The casts: redis-py's parameter is an invariant dict, and its result covers the forms of every protocol; with
    # protocol 2 and undecoded replies there is this one.
    found = await client.xread(cast("dict[KeyT, StreamIdT]", {**positions}), count=count, block=BLOCK_MS)
    return cast("Entries", found or [])
