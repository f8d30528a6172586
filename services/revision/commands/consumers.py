"""What consumers of the command group leave behind: removed once nothing of theirs is pending."""

from collections.abc import Mapping
from typing import cast

from redis.asyncio import Redis

from shared.contracts.streams import COMMANDS, REVISION_GROUP

DEAD_AFTER_MS = 60_000
"""A consumer that asked for nothing this long is gone: a living one asks every second."""


async def hand_over(client: Redis, consumer: str, claim_after_ms: int) -> int:
    """Lets others claim at once what a consumer that reads no more was given and has not handled; returns how much that
    was, a thousand entries at most. Raises redis-py's errors.
    """
    left = await client.xpending_range(COMMANDS, REVISION_GROUP, min="-", max="+", count=1000, consumername=consumer)
    if left:
        entries = cast("list[int | bytes | str | memoryview]", [found["message_id"] for found in left])
        await client.xclaim(
            COMMANDS, REVISION_GROUP, consumer, min_idle_time=0, message_ids=entries, idle=claim_after_ms, justid=True
        )
    return len(left)


async def remove_if_done(client: Redis, consumer: str) -> bool:
    """Removes a consumer that reads no more, unless entries of it are still to be claimed. Raises redis-py's errors."""
    return any(
        [await _remove(client, found) for found in await _consumers(client) if found["name"] == consumer.encode()]
    )


async def remove_dead(client: Redis, after_ms: int = DEAD_AFTER_MS) -> int:
    """Removes consumers of processes that ended without doing so themselves; returns how many.

    Raises redis-py's errors. One that wakes at this very moment loses at most the pending mark of what it was just
    given: its askers ask again.
    """
    dead = [found for found in await _consumers(client) if cast("int", found["idle"]) > after_ms]
    return sum([await _remove(client, found) for found in dead])


async def _remove(client: Redis, found: Mapping[str, bytes | int]) -> bool:
    if found["pending"]:
        return False
    await client.xgroup_delconsumer(COMMANDS, REVISION_GROUP, cast("bytes", found["name"]))
    return True


async def _consumers(client: Redis) -> list[Mapping[str, bytes | int]]:
    # The cast: redis-py's result covers the forms of every protocol; with protocol 2, undecoded, it is this one.
    return cast("list[Mapping[str, bytes | int]]", await client.xinfo_consumers(COMMANDS, REVISION_GROUP))
