"""Every process says now and then that it runs, in which version and by which clock: for people who ask what runs, and
whether its clocks agree. No service depends on it.

An entry's id is the time at which Redis took it, so its clock and that of the process stand side by side.
"""

import asyncio
import os
import secrets
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from redis.asyncio import Redis
from redis.typing import EncodableT, FieldT

from shared.broker.connection import BROKER_ERRORS
from shared.contracts.streams import PRESENCE
from shared.version import VERSION

EVERY_SECONDS = 5.0
KEEP_ENTRIES = 1000
"""Approximately: what some hundred processes say within the time for which they count as present."""

PRESENT_MS = 15_000
"""Who said nothing for longer is gone."""


@dataclass(frozen=True, slots=True)
class Present:
    """A process that runs. `name`: host, process and something random. `clock_skew`: seconds by which its clock is
    ahead of Redis', less the entry's way there.
    """

    service: str
    name: str
    version: str
    clock_skew: float


class Presence:
    """Says that this process runs."""

    def __init__(self, client: Redis, service: str) -> None:
        self._client = client
        self._said: dict[FieldT, EncodableT] = {
            "service": service,
            "name": f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}",
            "version": VERSION,
        }

    async def run(self) -> None:
        """Says it until it is cancelled."""
        while True:
            try:
                self._said["clock"] = int(time.time() * 1000)
                await self._client.xadd(PRESENCE, self._said, maxlen=KEEP_ENTRIES, approximate=True)
            except BROKER_ERRORS:
                pass  # whoever misses it finds Redis away
            await asyncio.sleep(EVERY_SECONDS)


async def present(client: Redis) -> tuple[Present, ...]:
    """The processes that have said lately that they run, by service and name. `client` decodes what it reads. Raises
    redis-py's errors.
    """
    seconds, microseconds = await client.time()
    oldest = seconds * 1000 + microseconds // 1000 - PRESENT_MS
    # The cast: redis-py's result covers the forms of every protocol.
    rows = cast("list[tuple[str, dict[str, str]]]", await client.xrange(PRESENCE, min=max(0, oldest)))
    found = {each.name: each for entry_id, fields in rows if (each := _read(entry_id, fields)) is not None}
    return tuple(sorted(found.values(), key=lambda each: (each.service, each.name)))


def _read(entry_id: str, fields: Mapping[str, str]) -> Present | None:
    """What an entry says; `None` for one that no process of this project wrote."""
    try:
        skew = (int(fields["clock"]) - int(entry_id.partition("-")[0])) / 1000
        return Present(fields["service"], fields["name"], fields["version"], skew)
    except (KeyError, ValueError):
        return None
