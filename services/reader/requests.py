"""Takes reads from the stream and answers each on its asker's reply stream.

Reads are not acknowledged: they have a deadline, and an asker that asks again. A reader that dies loses what it had
taken; nothing is ever answered twice by its successor.
"""

import asyncio
import logging
import os
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial

from faststream.redis import RedisBroker
from pydantic import TypeAdapter, ValidationError

from services.reader.admission import Admitted, Lane
from services.reader.answers import Reader
from services.reader.metrics import COST, READ_SECONDS, READS
from shared.broker.connection import BLOCK_MS, BROKER_ERRORS
from shared.broker.guarded import Group, Subscription, take_fetches
from shared.broker.replies import ReplyWriter, is_past
from shared.contracts import streams
from shared.contracts.errors import RequestFailed, kinds
from shared.contracts.reads import HostMessages, MessagesPage, ReadRequest, TurnsPage
from shared.metrics.declaring import Read
from shared.telemetry import logged_with

logger = logging.getLogger(__name__)

_REQUEST = TypeAdapter(ReadRequest)

GROUP = Group(streams.READS, streams.READERS_GROUP)

PAGES_AT_WORK = 64
"""Cost of the pages in hand at once, from the statement to the reply: at most 16, each of at most 8 MiB, as rows, as
models and as JSON. They need 400 MiB at the worst and a few at most in practice; eight connections are kept busy.
"""

OTHERS_AT_WORK = 48
"""Cost of all other reads in hand: some more than connections to the database, of which each needs one for a moment."""

WAITING = 16_384
"""Cost of the reads of each kind that wait: some thousand pages, of a few hundred bytes each as requests."""

FETCHED_AT_ONCE = 64
"""Entries taken from the stream in one go."""

YIELD_SECONDS = 0.02
"""How long a reader with reads waiting leaves the stream to others. What it has taken, no other can answer; yet all of
them together take what comes, or nobody could refuse what cannot be answered in time.
"""


def consumer_name() -> str:
    """A name that no other reader has, and that says which process it is."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


class ReadRequests:
    """The subscriber of one reader. It is registered on the broker when made, and started by the broker's owner."""

    def __init__(self, broker: RedisBroker, reader: Reader, replies: ReplyWriter, consumer: str) -> None:
        self._reader = reader
        self._replies = replies
        self._pages = Lane(PAGES_AT_WORK, WAITING)
        self._others = Lane(OTHERS_AT_WORK, WAITING)
        self._in_hand: set[tuple[str, str]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns: dict[Admitted, asyncio.Event] = {}
        self._closed = False
        source = Subscription(
            GROUP.stream,
            group=GROUP.name,
            consumer=consumer,
            last_id=">",
            no_ack=True,
            polling_interval=BLOCK_MS,
            max_records=FETCHED_AT_ONCE,
            batch=True,
        )
        take_fetches(broker, source, self.handle)

    async def handle(self, entries: Sequence[bytes]) -> None:
        """Takes what one fetch brought on, or refuses it. Returns, and so lets the next fetch begin."""
        for entry in entries:
            try:
                request = _REQUEST.validate_json(entry)
            except ValidationError as error:
                logger.warning("an entry of %s is no read: %s", GROUP.stream, kinds(error))
                continue
            if is_past(request.deadline):
                READS.labels(request.read.kind, "expired").inc()
            else:
                await self._take_on(request)
        # Without a pause what was begun still sends its statement before the next fetch is put together.
        await asyncio.sleep(YIELD_SECONDS if self._pages.busy or self._others.busy else 0)

    def reads(self) -> Iterable[Read]:
        """What is in hand, as figures."""
        for name, lane in (("pages", self._pages), ("others", self._others)):
            yield COST.of(lane.waiting, name, "waiting")
            yield COST.of(lane.working, name, "working")

    async def finish(self) -> None:
        """Returns once everything in hand is answered, refused or past its deadline."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        """Drops what is in hand: those who asked will ask another reader."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _take_on(self, request: ReadRequest) -> None:
        """An asker repeats a read that it has no answer to, under the same id: what is in hand is not read again."""
        if _name(request) in self._in_hand:
            return
        lane = self._pages if isinstance(request.read, MessagesPage | TurnsPage | HostMessages) else self._others
        try:
            lane.offer(request)
        except RequestFailed as refused:
            READS.labels(request.read.kind, "refused").inc()
            await self._refuse(request, refused)
        else:
            self._in_hand.add(_name(request))
            self._begin(lane)

    def _begin(self, lane: Lane) -> None:
        """Begins what may be begun."""
        while not self._closed and (admitted := lane.next()) is not None:
            if (turn := self._turns.pop(admitted, None)) is not None:
                turn.set()
                continue
            task = asyncio.get_running_loop().create_task(self._serve(lane, admitted))
            self._tasks.add(task)
            task.add_done_callback(partial(self._served, lane, admitted))

    def _served(self, lane: Lane, admitted: Admitted, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._in_hand.discard(_name(admitted.request))
        self._turns.pop(admitted, None)
        lane.finished(admitted)
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            logger.error("a read failed", exc_info=error)
        self._begin(lane)

    async def _serve(self, lane: Lane, admitted: Admitted) -> None:
        """Answers one request before its deadline, or not at all."""
        request = admitted.request
        if is_past(request.deadline):
            READS.labels(request.read.kind, "expired").inc()
            return
        with logged_with(request=request.request_id):
            try:
                async with asyncio.timeout(request.deadline / 1000 - time.time()):
                    with READ_SECONDS.labels(request.read.kind).time():
                        await self._answer(request, partial(self._rest, lane, admitted))
            except TimeoutError:
                READS.labels(request.read.kind, "expired").inc()
                logger.info("%s was not answered before its deadline", request.read.kind)

    async def _rest(self, lane: Lane, admitted: Admitted, seconds: float) -> None:
        """Lets others work for some seconds, and until it is this read's turn again."""
        lane.rests(admitted)
        self._begin(lane)
        await asyncio.sleep(seconds)
        turn = self._turns[admitted] = asyncio.Event()
        lane.returns(admitted)
        self._begin(lane)
        await turn.wait()

    async def _answer(self, request: ReadRequest, rest: Callable[[float], Awaitable[None]]) -> None:
        try:
            answer = await self._reader.answer(request.read, rest)
        except RequestFailed as refused:
            READS.labels(request.read.kind, refused.failure.code).inc()
            await self._refuse(request, refused)
            return
        READS.labels(request.read.kind, "answered").inc()
        try:
            await self._replies.answer(request.reply_to, request.request_id, answer)
        except BROKER_ERRORS as error:
            _not_sent(error)

    async def _refuse(self, request: ReadRequest, refused: RequestFailed) -> None:
        try:
            await self._replies.refuse(request.reply_to, request.request_id, refused.failure)
        except BROKER_ERRORS as error:
            _not_sent(error)


def _name(request: ReadRequest) -> tuple[str, str]:
    return request.reply_to, request.request_id


def _not_sent(error: Exception) -> None:
    logger.warning("a reply could not be sent (%s); its asker will ask again", type(error).__name__)
