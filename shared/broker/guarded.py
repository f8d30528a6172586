"""A FastStream broker whose subscribers survive a Redis that is restarted, flushed or replaced, and whatever stands in
their streams.

FastStream stops a group subscriber for good when its group is gone. The guard watches Redis itself: a group that is
missing is created (from id 0: what was
written before the group is still to be handled), a subscriber that has stopped is started anew, and what every group
is done with is removed.
"""

import asyncio
import logging
import struct
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self, cast

from faststream.message import StreamMessage
from faststream.redis import RedisBroker, StreamSub
from faststream.redis.exceptions import StreamGroupNotFoundError
from faststream.redis.parser import BinaryMessageFormatV1
from faststream.redis.subscriber.usecases import stream_subscriber
from faststream.redis.subscriber.usecases.stream_subscriber import StreamSubscriber
from pydantic import SecretStr
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from shared.broker.connection import BROKER_ERRORS, RETRY_SECONDS, connect, stop_if_cancelled
from shared.broker.cursor import LOOK_SECONDS, entry_key, id_after, last_id, resumed
from shared.contracts.base import Contract

# The library pauses five seconds after any fetch that failed, one lost connection included, and offers no setting for
# it: nothing would be read, nor written, for as long after Redis answers again. Its loop reads this name at each turn.
vars(stream_subscriber)["CONSUME_ERROR_BACKOFF_SECONDS"] = RETRY_SECONDS

logger = logging.getLogger(__name__)

WATCH_SECONDS = 0.1
"""Pause between two looks at Redis; bounds how long a subscriber stays down after Redis answers again."""

END_SECONDS = 5.0
"""How long a reader that was cancelled may take to end: longer than a read that lost its cancellation waits."""


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group that this process reads from."""

    stream: str
    name: str


class _Outages(logging.Filter):
    """Leaves out what the library says of a Redis that is away or was flushed: the guard says it, once."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, (*BROKER_ERRORS, StreamGroupNotFoundError))


_OUTAGES = _Outages()


def open_broker(url: SecretStr) -> RedisBroker:
    """A broker for one process. Its log lines are this process's own: warnings and errors, without message bodies."""
    library = logging.getLogger("faststream")
    # Importing FastStream gives its logger a level and a handler that pass by this process's settings and its filter.
    library.handlers.clear()
    library.propagate = True
    library.setLevel(logging.WARNING)
    library.addFilter(_OUTAGES)
    # At DEBUG, what it says of every message is not even put together. Handlers take bodies as they are: to look at
    # their types for each message would take longer than to parse it.
    return RedisBroker(url.get_secret_value(), logger=library, log_level=logging.DEBUG, apply_types=False)


class Subscription(StreamSub):
    """What a subscriber reads. It is asked for with each message, and as there are no prefixes, needs no copy then."""

    __slots__ = ()

    def add_prefix(self, prefix: str) -> Self:
        """Itself, for the prefix that no broker of `open_broker` has."""
        return super().add_prefix(prefix) if prefix else self


async def encoded(message: Contract, name: str) -> bytes:
    """The field `__data__` of an entry that a subscriber takes, for what is written past the broker. `name`: of the
    message, in its headers.
    """
    body = message.model_dump_json().encode()
    headers = {"content-type": "application/json"}
    return await BinaryMessageFormatV1.encode(message=body, reply_to=None, headers=headers, correlation_id=name)


UNREADABLE = b"an entry that cannot be read"
"""What a subscriber is given instead of such an entry: no contract takes it either."""

_UNPARSED = (ValueError, LookupError, TypeError, AttributeError, struct.error)
"""What the library's parser raises at entries that none of its publishers wrote."""


# Any: the library's own type of raw entries, which differs between its kinds of subscribers.
async def readable(entry: Any, parse: Callable[[Any], Awaitable[StreamMessage[Any]]]) -> StreamMessage[Any]:
    """The parser of a subscriber that is given one entry at a time: it takes any. One that the library cannot parse
    would never be acknowledged.
    """
    try:
        return await parse(entry)
    except _UNPARSED:
        return await parse({**entry, "data": {b"__data__": UNREADABLE}})


def take_fetches(broker: RedisBroker, source: Subscription, take: Callable[[Sequence[bytes]], Awaitable[None]]) -> None:
    """Subscribes to whole fetches, of which nothing is acknowledged: `take` is given the bodies of each, and must not
    raise. Past the library's own steps for a message: those would read the JSON of each entry, write that of all,
    make a context for it and look at both, which is more than all else that a reader does for a small page.
    """

    async def consume(fetch: Mapping[str, Any]) -> None:  # Any: the library's own type of fetches
        await take([_body(fields) for fields in fetch["data"]])

    subscriber = broker.subscriber(stream=source, no_reply=True)
    subscriber(take)  # one without a handler would not be started
    vars(subscriber)["consume_one"] = consume


def _body(fields: Mapping[bytes, bytes]) -> bytes:
    try:
        body, _ = BinaryMessageFormatV1.parse(fields[b"__data__"])
    except _UNPARSED:
        return UNREADABLE
    return body


async def undecoded(message: StreamMessage[Any]) -> bytes:
    """A subscriber's decoder that leaves the body as it is: to be parsed once, by a contract that keeps content out of
    its errors.
    """
    return message.body if isinstance(message.body, bytes) else b""


class GroupGuard:
    """Starts a broker's subscribers and keeps them running as long as Redis answers.

    What was delivered and is not pending is removed from the groups' streams within `WATCH_SECONDS`, so that they hold
    what is still to be handled and no more.
    """

    def __init__(self, broker: RedisBroker, url: SecretStr, groups: Sequence[Group]) -> None:
        self._broker = broker
        self._client: Redis = connect(url)
        self._groups = groups
        self._started: set[StreamSubscriber] = set()
        self._removed: dict[str, bytes] = {}
        self._compared_at = 0.0
        self._leaving, self._left = asyncio.Event(), asyncio.Event()
        self.connected = False
        """Whether Redis answered when it was last asked, and the subscribers run."""

    async def run(self) -> None:
        """Watches until it is cancelled or told to leave, then stops the subscribers."""
        try:
            await self._broker.connect()
            while not self._leaving.is_set():
                stop_if_cancelled()
                await self._look()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._leaving.wait(), WATCH_SECONDS)
        finally:
            await self._end_reading()
            await self._broker.stop()
            await self._client.aclose()
            self._left.set()

    async def leave(self) -> None:
        """Has no more entries taken while `run` runs. Returns once subscribers are done with those that they took."""
        self._leaving.set()
        await self._left.wait()

    async def _end_reading(self) -> None:
        """Stops the subscribers, and waits until they have stopped.

        The library does not wait: it closes the connections under readers that are only just cancelled. One that was in
        the middle of a command connects again then, and loses its new connection to the end of the old one's closing.
        """
        subscribers = self._subscribers()
        reading = [task for subscriber in subscribers for task in subscriber.tasks]
        await asyncio.gather(*(subscriber.stop() for subscriber in subscribers))
        if reading:
            await asyncio.wait(reading, timeout=END_SECONDS)

    async def _look(self) -> None:
        try:
            for group in self._groups:
                await self._tend(group)
            compare = time.monotonic() - self._compared_at >= LOOK_SECONDS
            for subscriber in self._subscribers():
                # Another process may have made the group again after this one's subscribers had given up on it.
                if subscriber not in self._started or not subscriber.running:
                    await self._start(subscriber)
                elif compare and subscriber.stream_sub.group is None:
                    await self._compare(subscriber)
            if compare:
                self._compared_at = time.monotonic()
            self.connected = True
        except BROKER_ERRORS as error:
            if self.connected:
                logger.warning("redis does not answer (%s); waiting for it", type(error).__name__)
            self.connected = False

    def _subscribers(self) -> list[StreamSubscriber]:
        # The cast: batch subscribers are a class of their own, alike in everything that is used here.
        return [cast("StreamSubscriber", subscriber) for subscriber in self._broker.subscribers]

    async def _tend(self, group: Group) -> None:
        """Creates the group if it is missing, and removes what every group of its stream is done with."""
        try:
            present = cast("list[Mapping[str, Any]]", await self._client.xinfo_groups(group.stream))
        except ResponseError as error:
            if "no such key" not in str(error).lower():
                raise
            present = []
        if any(found["name"] == group.name.encode() for found in present):
            await self._remove_done(group.stream, present)
            return
        try:
            await self._client.xgroup_create(group.stream, group.name, id="0", mkstream=True)
        except ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise
        if self.connected:
            logger.warning("the group %s of %s was gone and was made again", group.name, group.stream)

    # Any: a server's answer about a group holds numbers and bytes.
    async def _remove_done(self, stream: str, groups: Sequence[Mapping[str, Any]]) -> None:
        kept = [await self._least_kept(stream, found) for found in groups]
        least = min(kept, key=entry_key)
        if least != self._removed.get(stream):
            await self._client.xtrim(stream, minid=least, approximate=False)
            self._removed[stream] = least

    async def _least_kept(self, stream: str, group: Mapping[str, Any]) -> bytes:
        """The id below which this group needs no entry: its oldest pending one, or the next to be delivered."""
        if group["pending"]:
            # Any: as above.
            pending = cast("Mapping[str, Any]", await self._client.xpending(stream, group["name"]))
            if pending["min"] is not None:
                return cast("bytes", pending["min"])
        return id_after(group["last-delivered-id"])

    async def _start(self, subscriber: StreamSubscriber) -> None:
        placed = subscriber in self._started
        self._started.discard(subscriber)
        await subscriber.stop()
        if subscriber.stream_sub.group is None and not placed:
            # A concrete id: with the library's `$`, what is written between two reads is lost.
            subscriber.last_id = (await last_id(self._client, subscriber.stream_sub.name)).decode()
        await subscriber.start()
        self._started.add(subscriber)

    async def _compare(self, subscriber: StreamSubscriber) -> None:
        """G9, for a subscriber without a group; its next read starts at the place set here."""
        stream, held = subscriber.stream_sub.name, subscriber.last_id
        positions, began_anew = resumed({stream: held.encode()}, {stream: await last_id(self._client, stream)})
        if began_anew and subscriber.last_id == held:
            subscriber.last_id = positions[stream].decode()
