"""Room for so many bytes at a time."""

import asyncio
import time

import pytest

from services.gateway.source.room import Room
from shared.contracts.errors import RequestFailed


class Holder:
    """Takes room until it is told to leave."""

    def __init__(self, room: Room, size: int, seconds: float = 60) -> None:
        self._leaving = asyncio.Event()
        self.inside = False
        self.task = asyncio.create_task(self._hold(room, size, seconds))

    async def _hold(self, room: Room, size: int, seconds: float) -> None:
        async with room.taken(size, time.monotonic() + seconds):
            self.inside = True
            await self._leaving.wait()
        self.inside = False

    async def leave(self) -> None:
        self._leaving.set()
        await self.task


async def settled() -> None:
    """Lets every task go as far as it can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_holders_come_in_while_they_fit_and_in_their_order() -> None:
    room = Room(10, "limit_exceeded", "no room")
    first, second, third, fourth = (Holder(room, size) for size in (6, 3, 5, 1))
    await settled()
    assert [each.inside for each in (first, second, third, fourth)] == [True, True, False, False]
    await second.leave()
    await settled()
    assert [each.inside for each in (third, fourth)] == [False, False]
    await first.leave()
    await settled()
    assert [each.inside for each in (third, fourth)] == [True, True]
    await third.leave()
    await fourth.leave()


async def test_what_never_fits_is_let_in_alone() -> None:
    room = Room(10, "limit_exceeded", "no room")
    large = Holder(room, 99)
    small = Holder(room, 1)
    await settled()
    assert (large.inside, small.inside) == (True, False)
    await large.leave()
    await settled()
    assert small.inside
    await small.leave()


async def test_who_waits_too_long_is_refused_and_keeps_nobody_waiting() -> None:
    room = Room(10, "limit_exceeded", "no room")
    first, late, small = Holder(room, 8), Holder(room, 8, seconds=0), Holder(room, 2)
    with pytest.raises(RequestFailed) as refused:
        await late.task
    assert refused.value.failure.code == "limit_exceeded"
    assert refused.value.failure.retryable
    await settled()
    assert small.inside
    await first.leave()
    await small.leave()


@pytest.mark.parametrize("inside", [True, False])
async def test_a_cancelled_holder_gives_its_place_back(inside: bool) -> None:
    room = Room(10, "limit_exceeded", "no room")
    first, second, third = Holder(room, 8), Holder(room, 8), Holder(room, 2)
    await settled()
    cancelled = first if inside else second
    cancelled.task.cancel()
    await asyncio.wait([cancelled.task])
    await settled()
    assert (second if inside else third).inside
    for each in (first, second, third):
        if each is not cancelled:
            await each.leave()
