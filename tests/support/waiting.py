"""Waiting on conditions."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

PATIENCE = 45.0
"""Seconds after which a condition counts as never met: far beyond what any needs, so that none fails by the clock."""

_LOOK_SECONDS = 0.01

T = TypeVar("T")


async def eventually(
    look: Callable[[], Awaitable[T]], met: Callable[[T], bool] = bool, patience: float = PATIENCE
) -> T:
    """Looks again and again until what it finds meets the condition. Fails with the last finding after `patience`."""
    deadline = asyncio.get_running_loop().time() + patience
    found = await look()
    while not met(found):
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError(f"it did not come to that within {patience:.0f} s; last seen: {found!r:.2000}")
        await asyncio.sleep(_LOOK_SECONDS)
        found = await look()
    return found
