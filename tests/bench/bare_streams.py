"""Reading Redis Streams with nothing around it: the hop that the product is measured beside."""

import time
from collections.abc import Callable, Mapping
from typing import cast

from redis.asyncio import Redis
from redis.typing import KeyT, StreamIdT

from shared.broker.connection import BLOCK_MS, stop_if_cancelled
from shared.broker.cursor import Entries


async def read_after(client: Redis, positions: Mapping[str, bytes], count: int) -> Entries:
    """Entries behind the positions, in order per stream; waits up to `BLOCK_MS` for one. Loops over it end when their
    task is cancelled, though redis-py may have lost that.
    """
    stop_if_cancelled()
    # The casts: redis-py's parameter is an invariant dict, and its result covers the forms of every protocol.
    found = await client.xread(cast("dict[KeyT, StreamIdT]", {**positions}), count=count, block=BLOCK_MS)
    return cast("Entries", found or [])


async def follow(
    client: Redis, positions: dict[str, bytes], note: Callable[[Mapping[bytes, bytes], int], None]
) -> None:
    """Reads on and on until it is cancelled."""
    while True:
        found = await read_after(client, positions, 256)
        now = time.monotonic_ns()
        for stream, entries in found:
            positions[stream.decode()] = entries[-1][0]
            for _, fields in entries:
                note(fields, now)
