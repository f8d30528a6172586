"""Steady load: one call every so often, whether or not the last one has ended."""

import asyncio
import time
from collections.abc import Awaitable, Callable


async def paced(rate: float, seconds: float, call: Callable[[int], Awaitable[None]]) -> int:
    """Calls `call(number)` that many times a second for so long, and waits for all; returns how many there were.

    A late call is made at once: the rate holds over the whole time. Raises what a call raises.
    """
    # The event loop's own clock stands still between its turns.
    began, count = time.perf_counter(), int(rate * seconds)
    async with asyncio.TaskGroup() as calls:
        for number in range(count):
            wait = began + number / rate - time.perf_counter()
            if wait > 0:
                await asyncio.sleep(wait)
            calls.create_task(_called(call, number))
    return count


async def _called(call: Callable[[int], Awaitable[None]], number: int) -> None:
    await call(number)


async def at_once(callers: int, seconds: float, call: Callable[[], Awaitable[None]]) -> list[float]:
    """Seconds that each call took, of so many callers that each call again as soon as they can."""
    until = time.perf_counter() + seconds
    took: list[float] = []

    async def caller() -> None:
        while (began := time.perf_counter()) < until:
            await call()
            took.append(time.perf_counter() - began)

    async with asyncio.TaskGroup() as group:
        for _ in range(callers):
            group.create_task(caller())
    return took
