"""A FastStream broker whose consumer groups survive a Redis that is restarted, flushed or replaced.

FastStream stops a group subscriber for good when its group is gone, and sleeps five seconds after a failed fetch. The
guard watches Redis itself: when it answers again, or a group is missing, it creates the groups (from id 0: what was
written before the group is still to be handled) and starts the subscribers anew.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from faststream.redis import RedisBroker, StreamSub
from faststream.redis.subscriber.usecases.stream_subscriber import StreamSubscriber
from pydantic import SecretStr
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from shared.broker.connection import BROKER_ERRORS, connect, stop_if_cancelled
from shared.broker.cursor import last_id, resumed

logger = logging.getLogger(__name__)

WATCH_SECONDS = 0.1
"""Pause between two looks at Redis; bounds how long a subscriber stays down after Redis answers again."""


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group that this process reads from."""

    stream: str
    name: str


def open_broker(url: SecretStr) -> RedisBroker:
    """A broker for one process. Its log lines are this process's own: warnings and errors, without message bodies."""
    library = logging.getLogger("faststream")
    # Importing FastStream gives its logger a level and a handler that pass by this process's settings and its filter.
    library.handlers.clear()
    library.propagate = True
    library.setLevel(logging.WARNING)
    # At DEBUG, what it says of every message is not even put together.
    return RedisBroker(url.get_secret_value(), logger=library, log_level=logging.DEBUG)


class Subscription(StreamSub):
    """What a subscriber reads. It is asked for with each message, and as there are no prefixes, needs no copy then."""

    __slots__ = ()

    def add_prefix(self, prefix: str) -> Self:
        """Itself, for the prefix that no broker of `open_broker` has."""
        return super().add_prefix(prefix) if prefix else self


class GroupGuard:
    """Starts a broker's subscribers and keeps them running as long as Redis answers."""

    def __init__(self, broker: RedisBroker, url: SecretStr, groups: Sequence[Group]) -> None:
        self._broker = broker
        self._client: Redis = connect(url)
        self._groups = groups
        self._placed: set[str] = set()
        self.connected = False
        """Whether Redis answered when it was last asked, and the subscribers run."""

    async def run(self) -> None:
        """Watches until it is cancelled, then stops the subscribers."""
        try:
            await self._broker.connect()
            while True:
                stop_if_cancelled()
                await self._look()
                await asyncio.sleep(WATCH_SECONDS)
        finally:
            await self._broker.stop()
            await self._client.aclose()

    async def _look(self) -> None:
        try:
            created = [group for group in self._groups if await self._ensure(group)]
            # Another process may have made the group again after this one's subscribers had given up on it.
            stopped = any(not subscriber.running for subscriber in self._broker.subscribers)
            if created or stopped or not self.connected:
                await self._restart()
            self.connected = True
        except BROKER_ERRORS as error:
            if self.connected:
                logger.warning("redis does not answer (%s); waiting for it", type(error).__name__)
            self.connected = False

    async def _ensure(self, group: Group) -> bool:
        """Whether the group had to be created."""
        try:
            present = await self._client.xinfo_groups(group.stream)
        except ResponseError as error:
            if "no such key" not in str(error).lower():
                raise
            present = []
        if any(found["name"] == group.name.encode() for found in present):
            return False
        try:
            await self._client.xgroup_create(group.stream, group.name, id="0", mkstream=True)
        except ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise
        return True

    async def _restart(self) -> None:
        for subscriber in self._broker.subscribers:
            await subscriber.stop()
            if isinstance(subscriber, StreamSubscriber) and subscriber.stream_sub.group is None:
                await self._place(subscriber)
            await subscriber.start()

    async def _place(self, subscriber: StreamSubscriber) -> None:
        """Gives a subscriber without a group the concrete id to read from: the stream's end at first, then G9."""
        stream = subscriber.stream_sub.name
        found = await last_id(self._client, stream)
        if stream in self._placed:
            found = resumed({stream: subscriber.last_id.encode()}, {stream: found})[0][stream]
        self._placed.add(stream)
        subscriber.last_id = found.decode()
