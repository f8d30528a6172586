"""A reply stream that nobody writes to any more disappears, though not every reply says so."""

from redis.asyncio import Redis

from shared.broker.replies import KEEP_STREAM_MS, KEPT_FOR_SECONDS, ReplyWriter
from shared.contracts.errors import Failure

FAILURE = Failure(code="not_found", message="gone")


async def test_the_expiry_is_put_off_while_the_stream_is_in_use(redis: Redis) -> None:
    now = 100.0
    writer = ReplyWriter(redis, clock=lambda: now)
    await writer.refuse("replies", "1", FAILURE)
    assert 0 < await redis.pttl("replies") <= KEEP_STREAM_MS
    await redis.pexpire("replies", 1000)
    now += KEPT_FOR_SECONDS / 2
    await writer.refuse("replies", "2", FAILURE)
    assert await redis.pttl("replies") <= 1000
    now += KEPT_FOR_SECONDS
    await writer.refuse("replies", "3", FAILURE)
    assert await redis.pttl("replies") > 1000
    assert await redis.xlen("replies") == 3


async def test_every_stream_has_an_expiry_of_its_own(redis: Redis) -> None:
    writer = ReplyWriter(redis)
    for name in ("one", "two", "one"):
        await writer.refuse(name, "1", FAILURE)
    assert await redis.pttl("one") > 0
    assert await redis.pttl("two") > 0


def test_the_expiry_leaves_room_for_the_pause_between_two() -> None:
    assert 2 * KEPT_FOR_SECONDS * 1000 < KEEP_STREAM_MS
