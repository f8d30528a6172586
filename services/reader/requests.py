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
from typing import Any

import orjson
from faststream.message import StreamMessage
from faststream.redis import RedisBroker
from pydantic import TypeAdapter, ValidationError

from services.reader.answers import Reader
from shared.broker.connection import BLOCK_MS, BROKER_ERRORS
from shared.broker.guarded import Group, Subscription, readable
from shared.broker.replies import ReplyWriter, is_past
from shared.contracts import streams
from shared.contracts.errors import RequestFailed, kinds
from shared.contracts.reads import HostMessages, MessagesPage, ReadRequest, TurnsPage

logger = logging.getLogger(__name__)

_REQUEST = TypeAdapter(ReadRequest)

GROUP = Group(streams.READS, streams.READERS_GROUP)

MAX_WORKERS = 64
"""Requests in hand at once. Far more than connections to the database, since one that waits for a commit to become
visible holds none; beyond it, entries stay in the stream for another reader.
"""

MAX_PAGES = 16
"""Pages in hand at once, from the statement to the reply: of at most 8 MiB each, as rows, as models and as JSON, they
need 400 MiB at the worst and a few at most in practice. Twice the default number of connections keeps those busy.
"""

FETCHED_AT_ONCE = 8
"""Entries taken from the stream in one go: what one reader has taken, no other can answer."""


def consumer_name() -> str:
    """A name that no other reader has, and that says which process it is."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


class ReadRequests:
    """The subscriber of one reader. It is registered on the broker when made, and started by the broker's owner."""

    def __init__(self, broker: RedisBroker, reader: Reader, replies: ReplyWriter, consumer: str) -> None:
        self._reader = reader
        self._replies = replies
        self._hands = asyncio.Semaphore(MAX_WORKERS)
        self._pages = asyncio.Semaphore(MAX_PAGES)
        self._tasks: set[asyncio.Task[None]] = set()
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
        broker.subscriber(stream=source, no_reply=True, parser=readable, decoder=_documents)(self.handle)

    async def handle(self, entries: list[object]) -> None:
        """Takes what one fetch brought. Returns, and so lets the next fetch begin, once every entry is in hand."""
        for entry in entries:
            try:
                request = _REQUEST.validate_python(entry)
            except ValidationError as error:
                logger.warning("an entry of %s is no read: %s", GROUP.stream, kinds(error))
                continue
            await self._hands.acquire()
            task = asyncio.get_running_loop().create_task(self._serve(request))
            self._tasks.add(task)
            task.add_done_callback(self._served)

    async def close(self) -> None:
        """Drops what is in hand: those who asked will ask another reader."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _served(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._hands.release()
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a read failed", exc_info=error)

    async def _serve(self, request: ReadRequest) -> None:
        """Answers one request before its deadline, or not at all."""
        if is_past(request.deadline):
            return
        try:
            async with asyncio.timeout(request.deadline / 1000 - time.time()):
                if isinstance(request.read, MessagesPage | TurnsPage | HostMessages):
                    async with self._pages:
                        await self._answer(request)
                else:
                    await self._answer(request)
        except TimeoutError:
            logger.info("%s was not answered before its deadline", request.read.kind)

    async def _answer(self, request: ReadRequest) -> None:
        try:
            try:
                answer = await self._reader.answer(request.read)
            except RequestFailed as refused:
                await self._replies.refuse(request.reply_to, request.request_id, refused.failure)
            else:
                await self._replies.answer(request.reply_to, request.request_id, answer)
        except BROKER_ERRORS as error:
            logger.warning("a reply could not be sent (%s); its asker will ask again", type(error).__name__)


# Any: FastStream's parameter is the type of its raw entries, which nothing here touches.
async def _documents(message: StreamMessage[Any]) -> object:
    """The entries of one fetch as plain JSON, each to be validated by itself: one that is no read spoils no other."""
    return orjson.loads(message.body)
