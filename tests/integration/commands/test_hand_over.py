"""What a revision process was given and did not begin is another's at once when it stops."""

from pydantic import SecretStr

from services.revision.commands import consumers
from services.revision.commands.requests import CLAIM_AFTER_MS
from shared.broker.connection import connect
from shared.contracts.streams import COMMANDS, REVISION_GROUP


async def claimed(redis_url: str, count: int) -> tuple[int, list[object]]:
    """How much a consumer with `count` entries hands over, and what another one claims of it."""
    async with connect(SecretStr(redis_url)) as client:
        await client.flushdb()
        await client.xgroup_create(COMMANDS, REVISION_GROUP, id="0", mkstream=True)
        for number in range(count):
            await client.xadd(COMMANDS, {"n": number})
        await client.xreadgroup(REVISION_GROUP, "stopping", {COMMANDS: ">"})
        before = await client.xautoclaim(COMMANDS, REVISION_GROUP, "other", CLAIM_AFTER_MS)
        assert before[1] == []
        handed = await consumers.hand_over(client, "stopping", CLAIM_AFTER_MS)
        _, taken, *_ = await client.xautoclaim(COMMANDS, REVISION_GROUP, "other", CLAIM_AFTER_MS)
        assert await consumers.remove_if_done(client, "stopping")
        return handed, list(taken)


async def test_others_claim_it_without_waiting(redis_url: str) -> None:
    handed, taken = await claimed(redis_url, 3)
    assert (handed, len(taken)) == (3, 3)


async def test_who_has_nothing_hands_over_nothing(redis_url: str) -> None:
    assert await claimed(redis_url, 0) == (0, [])
