"""Waiting for a revision's receipt."""

import asyncio

from services.gateway.scopes.deliveries import Deliveries
from tests.support.waiting import eventually


async def test_an_interval_that_holds_the_revision_ends_the_wait() -> None:
    deliveries = Deliveries()
    with deliveries.of("s") as delivery:
        waiting = asyncio.create_task(delivery.of(7))
        for base, revision in ((4, 5), (7, 8), (5, 6)):
            deliveries.note("s", base, revision)
            deliveries.note("other", 6, 7)
            await asyncio.sleep(0)
            assert not waiting.done()
        deliveries.note("s", 5, 7)
        await waiting


async def test_what_was_told_before_the_question_counts() -> None:
    """The receipt may overtake the command's own answer."""
    deliveries = Deliveries()
    with deliveries.of("s") as delivery:
        deliveries.note("s", 6, 7)
        await delivery.of(7)


async def test_a_session_is_awaited_until_the_last_has_left() -> None:
    deliveries = Deliveries()
    with deliveries.of("s"):
        with deliveries.of("s"):
            assert "s" in deliveries
        assert "s" in deliveries
    assert "s" not in deliveries
    deliveries.note("s", 1, 2)


async def test_everybody_who_waits_is_told() -> None:
    deliveries = Deliveries()

    async def wait(revision: int) -> int:
        with deliveries.of("s") as delivery:
            await delivery.of(revision)
            return revision

    waiting = [asyncio.create_task(wait(revision)) for revision in (2, 3)]
    await asyncio.sleep(0)
    deliveries.note("s", 1, 3)
    assert await asyncio.gather(*waiting) == [2, 3]

    async def awaited() -> bool:
        return "s" in deliveries

    await eventually(awaited, lambda found: not found)
