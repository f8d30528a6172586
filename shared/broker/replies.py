"""Requests and their replies: every asking process has one reply stream, and replies are told apart by the request's
id.
"""

import asyncio
import logging
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError
from redis.asyncio import Redis
from redis.typing import EncodableT

from shared.broker.connection import BROKER_ERRORS, RETRY_SECONDS, stop_if_cancelled
from shared.broker.cursor import START, Cursor, Entries, id_after, size_of
from shared.contracts import streams
from shared.contracts.base import Contract
from shared.contracts.errors import Failure, RequestFailed
from shared.contracts.replies import Refusal
from shared.telemetry import name_logged

logger = logging.getLogger(__name__)

KEEP_REPLIES = 256
"""Most replies kept in one stream (approximately): a reply is read within milliseconds or never."""

KEEP_BYTES = 64 << 20
"""Most bytes of replies that one answering process leaves in one stream, beside the reply it writes last: eight of the
largest pages. Reached only by a gateway that stopped reading; one that reads removes what it has read.
"""

READ_COUNT = 64
"""Most replies of one read. What one read brings is bounded by what the stream may hold."""

REMOVE_BYTES = 1 << 20
"""Bytes of replies that may be read before they are removed from the stream: one more round trip per MiB. What is less
is removed in the first silence.
"""

KEEP_STREAM_MS = 30_000
"""A reply stream that nobody writes to any more disappears: its gateway is gone."""

ATTEMPT_SECONDS = 1.5
"""How long one attempt waits for its reply before the request is sent again: the request or its reply was lost, with
Redis or a reader.
"""

KEPT_FOR_SECONDS = 10.0
"""A stream's disappearance is put off this often at most. Far less than its delay, so that one in use stays."""


T = TypeVar("T")

_Reply = tuple[bool, bytes]
"""Whether the request was answered rather than refused, and the answer or the refusal as JSON."""


@dataclass(slots=True)
class _Written:
    """What one process wrote to one stream: ids and sizes, oldest first."""

    kept_since: float
    entries: deque[tuple[bytes, int]] = field(default_factory=deque)
    size: int = 0

    def add(self, entry_id: bytes, size: int) -> None:
        self.entries.append((entry_id, size))
        self.size += size

    def surplus(self) -> list[bytes]:
        """Takes out what is over the bounds; the ids to remove."""
        removed = []
        while self.entries and (self.size > KEEP_BYTES or len(self.entries) > KEEP_REPLIES):
            entry_id, size = self.entries.popleft()
            self.size -= size
            removed.append(entry_id)
        return removed


class ReplyWriter:
    """Answers requests on their askers' streams. Raises redis-py's errors; the asker will ask again."""

    def __init__(self, client: Redis, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._written: dict[str, _Written] = {}

    async def answer(self, reply_to: str, request_id: str, body: Contract | bytes) -> None:
        """Sends an answer: a contract, or one's JSON."""
        await self._send(reply_to, request_id, b"1", body)

    async def refuse(self, reply_to: str, request_id: str, failure: Failure) -> None:
        """Sends a typed error."""
        await self._send(reply_to, request_id, b"0", Refusal(error=failure))

    async def _send(self, reply_to: str, request_id: str, ok: bytes, body: Contract | bytes) -> None:
        payload = body if isinstance(body, bytes) else body.model_dump_json().encode()
        fields: dict[EncodableT, EncodableT] = {"i": request_id, "o": ok, "b": payload}
        due = self._is_due(reply_to)
        written = self._written[reply_to]
        surplus = written.surplus()
        if due or surplus:
            pipeline = self._client.pipeline(transaction=False)
            pipeline.xadd(reply_to, fields, maxlen=KEEP_REPLIES, approximate=True)
            # A stream that Redis has lost meanwhile comes back without its expiry, until that is due. A gateway that
            # ends just then leaves its last replies in Redis: a bounded number, after two accidents in ten seconds.
            if due:
                pipeline.pexpire(reply_to, KEEP_STREAM_MS)
            if surplus:
                pipeline.xdel(reply_to, *surplus)
            entry_id, *_ = await pipeline.execute()
        else:
            # As nearly always: half of what a pipeline of one takes.
            entry_id = await self._client.xadd(reply_to, fields, maxlen=KEEP_REPLIES, approximate=True)
        written.add(entry_id, len(payload))

    def _is_due(self, reply_to: str) -> bool:
        """Whether the stream's expiry is to be put off now. Streams that are not written to any more are forgotten."""
        now = self._clock()
        written = self._written.get(reply_to)
        if written is not None and now - written.kept_since < KEPT_FOR_SECONDS:
            return False
        oldest = now - KEEP_STREAM_MS / 1000
        self._written = {name: each for name, each in self._written.items() if each.kept_since > oldest}
        self._written.setdefault(reply_to, _Written(now)).kept_since = now
        return True


def _request_id() -> str:
    """One that nobody has had. It begins with the id of the client's request that it is asked for, where one is known:
    whoever answers logs it.
    """
    asked_for, own = name_logged("request"), secrets.token_hex(12)
    return own if asked_for is None else f"{asked_for}-{own}"


class ReplyInbox:
    """Reads this process's reply stream, wakes whoever waits for the reply, and removes what it has read.

    So the stream holds at most `REMOVE_BYTES` that were read, and what its writers may leave unread (`KEEP_BYTES`).
    """

    def __init__(self, client: Redis) -> None:
        self._client = client
        self.name = streams.replies(secrets.token_hex(8))
        self._cursor = Cursor(client, {self.name: START})
        self._unremoved = 0
        self._waiting: dict[str, asyncio.Future[_Reply | None]] = {}

    async def run(self) -> None:
        """Reads until it is cancelled."""
        connected = True
        while True:
            stop_if_cancelled()
            try:
                if not connected:
                    self._read_anew(await self._cursor.resume())
                    connected = True
                found = await self._cursor.read(READ_COUNT)
                self._deliver(found)
                await self._remove_read(silent=not found)
                self._read_anew(await self._cursor.look())
            except BROKER_ERRORS:
                connected = False
                self._wake_all()
                await asyncio.sleep(RETRY_SECONDS)

    async def ask(self, send: Callable[[str], Awaitable[object]], deadline: float) -> bytes:
        """Sends a request, again if no reply comes in time, and returns the answer's JSON.

        `send` publishes the request with the id that it is given: the same for each attempt, so that an answer to an
        earlier one counts and whoever still has that in hand knows the next for a repetition. `deadline` is in
        `time.monotonic` seconds. Raises RequestFailed with the typed error that came back, or `unavailable` once the
        deadline has passed.
        """
        request_id = _request_id()
        try:
            while (left := deadline - time.monotonic()) > 0:
                reply = await self._attempt(send, request_id, min(left, ATTEMPT_SECONDS))
                if reply is None:
                    await asyncio.sleep(min(RETRY_SECONDS, left))
                    continue
                ok, body = reply
                if ok:
                    return body
                raise _refused(body)
        finally:
            self._waiting.pop(request_id, None)
        raise RequestFailed("unavailable", "no service answered in time; ask again")

    async def _attempt(
        self, send: Callable[[str], Awaitable[object]], request_id: str, seconds: float
    ) -> _Reply | None:
        """The reply to this attempt or an earlier one, if any comes in this time."""
        until = time.monotonic() + seconds
        future = self._waiting.get(request_id)
        if future is None or (future.done() and future.result() is None):
            future = self._waiting[request_id] = asyncio.get_running_loop().create_future()
        if not future.done():
            try:
                async with asyncio.timeout(seconds):
                    await send(request_id)
            except BROKER_ERRORS:
                return None
            # A wait of its own: redis-py can lose the cancellation by which the time-out ends a send, and that one
            # ends nothing a second time.
            await asyncio.wait([future], timeout=max(0.0, until - time.monotonic()))
        return future.result() if future.done() else None

    def _read_anew(self, began_anew: frozenset[str]) -> None:
        """A stream that began anew holds nothing but replies that were not read yet (G9)."""
        for stream in began_anew:
            self._cursor.rewind(stream)

    def _deliver(self, found: Entries) -> None:
        for _, rows in found:
            for _, fields in rows:
                self._unremoved += size_of(fields)
                try:
                    request_id, ok, body = fields[b"i"].decode(), fields[b"o"] == b"1", fields[b"b"]
                except (KeyError, UnicodeDecodeError):
                    logger.warning(
                        "a reply cannot be read and is passed over: %d fields, %d bytes", len(fields), size_of(fields)
                    )
                    continue
                future = self._waiting.get(request_id)
                if future is not None and not future.done():
                    future.set_result((ok, body))

    async def _remove_read(self, *, silent: bool) -> None:
        if self._unremoved > (0 if silent else REMOVE_BYTES):
            least_kept = id_after(self._cursor.position(self.name))
            await self._client.xtrim(self.name, minid=least_kept, approximate=False)
            self._unremoved = 0

    def _wake_all(self) -> None:
        """What was asked before the connection was lost may never be answered: let each asker ask again."""
        for future in self._waiting.values():
            if not future.done():
                future.set_result(None)


_REFUSAL = TypeAdapter(Refusal)


def _refused(body: bytes) -> RequestFailed:
    failure = read_answer(_REFUSAL, body).error
    return RequestFailed(failure.code, failure.message, **failure.details)


def read_answer(adapter: TypeAdapter[T], body: bytes) -> T:
    """An answer's JSON as its contract. Raises RequestFailed when it is none: asked again, another may answer."""
    try:
        return adapter.validate_json(body)
    except ValidationError:
        raise unreadable(body) from None


def unreadable(body: bytes) -> RequestFailed:
    """What is told, and logged, of an answer that is not what was asked for."""
    logger.warning("an answer of %d bytes is not what was asked for", len(body))
    return RequestFailed("unavailable", "the answer cannot be read; ask again")


def deadline_ms(seconds: float) -> int:
    """A request's deadline that many seconds from now, as `Envelope.deadline`."""
    return int((time.time() + seconds) * 1000)


def is_past(deadline: int) -> bool:
    """Whether an envelope's deadline has passed."""
    return time.time() * 1000 > deadline
