"""Requests and their replies: every asking process has one reply stream, and replies are told apart by the request's
id.
"""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable

from pydantic import TypeAdapter
from redis.asyncio import Redis

from shared.broker.connection import BROKER_ERRORS, RETRY_SECONDS, stop_if_cancelled
from shared.broker.cursor import START, last_id, read_after, resumed
from shared.contracts import streams
from shared.contracts.base import Contract
from shared.contracts.errors import Failure, RequestFailed
from shared.contracts.replies import Refusal

KEEP_REPLIES = 256
"""Most replies kept in one stream (approximately): a reply is read within milliseconds or never. The largest is a page
of 8 MiB.
"""

KEEP_STREAM_MS = 30_000
"""A reply stream that nobody writes to any more disappears: its gateway is gone."""

ATTEMPT_SECONDS = 1.5
"""How long one attempt waits for its reply before the request is sent again: the request or its reply was lost, with
Redis or a reader.
"""

KEPT_FOR_SECONDS = 10.0
"""A stream's disappearance is put off this often at most. Far less than its delay, so that one in use stays."""


_Reply = tuple[bool, bytes]
"""Whether the request was answered rather than refused, and the answer or the refusal as JSON."""


class ReplyWriter:
    """Answers requests on their askers' streams. Raises redis-py's errors; the asker will ask again."""

    def __init__(self, client: Redis, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._kept_since: dict[str, float] = {}

    async def answer(self, reply_to: str, request_id: str, body: Contract) -> None:
        """Sends an answer."""
        await self._send(reply_to, request_id, b"1", body)

    async def refuse(self, reply_to: str, request_id: str, failure: Failure) -> None:
        """Sends a typed error."""
        await self._send(reply_to, request_id, b"0", Refusal(error=failure))

    async def _send(self, reply_to: str, request_id: str, ok: bytes, body: Contract) -> None:
        pipeline = self._client.pipeline(transaction=False)
        pipeline.xadd(
            reply_to,
            {"i": request_id, "o": ok, "b": body.model_dump_json()},
            maxlen=KEEP_REPLIES,
            approximate=True,
        )
        # A stream that Redis has lost meanwhile comes back without its expiry, until that is due. A gateway that ends
        # just then leaves its last replies in Redis: a bounded number, after two accidents in ten seconds.
        if self._is_due(reply_to):
            pipeline.pexpire(reply_to, KEEP_STREAM_MS)
        await pipeline.execute()

    def _is_due(self, reply_to: str) -> bool:
        """Whether the stream's expiry is to be put off now. Streams that are not written to any more are forgotten."""
        now = self._clock()
        if now - self._kept_since.get(reply_to, float("-inf")) < KEPT_FOR_SECONDS:
            return False
        self._kept_since = {name: at for name, at in self._kept_since.items() if now - at < KEPT_FOR_SECONDS}
        self._kept_since[reply_to] = now
        return True


class ReplyInbox:
    """Reads this process's reply stream and wakes whoever waits for the reply."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self.name = streams.replies(secrets.token_hex(8))
        self._position = START
        self._waiting: dict[str, asyncio.Future[_Reply | None]] = {}

    async def run(self) -> None:
        """Reads until it is cancelled."""
        connected = True
        while True:
            stop_if_cancelled()
            try:
                if not connected:
                    await self._resume()
                    connected = True
                found = await read_after(self._client, {self.name: self._position}, KEEP_REPLIES)
            except BROKER_ERRORS:
                connected = False
                self._wake_all()
                await asyncio.sleep(RETRY_SECONDS)
                continue
            for _, rows in found:
                for entry_id, fields in rows:
                    self._position = entry_id
                    self._deliver(fields)

    async def ask(self, send: Callable[[str], Awaitable[object]], deadline: float) -> bytes:
        """Sends a request under a new id, again if no reply comes in time, and returns the answer's JSON.

        `send` publishes the request with the id it is given. `deadline` is in `time.monotonic` seconds. Raises
        RequestFailed with the typed error that
        came back, or `unavailable` once the deadline has passed.
        """
        while (left := deadline - time.monotonic()) > 0:
            request_id = secrets.token_hex(12)
            future: asyncio.Future[_Reply | None] = asyncio.get_running_loop().create_future()
            self._waiting[request_id] = future
            try:
                async with asyncio.timeout(min(left, ATTEMPT_SECONDS)):
                    await send(request_id)
                    reply = await future
            except BROKER_ERRORS:
                reply = None
            finally:
                self._waiting.pop(request_id, None)
            if reply is None:
                await asyncio.sleep(min(RETRY_SECONDS, left))
                continue
            ok, body = reply
            if ok:
                return body
            raise _refused(body)
        raise RequestFailed("unavailable", "no service answered in time; ask again")

    async def _resume(self) -> None:
        positions, _ = resumed({self.name: self._position}, {self.name: await last_id(self._client, self.name)})
        self._position = positions[self.name]

    def _deliver(self, fields: dict[bytes, bytes]) -> None:
        future = self._waiting.get(fields[b"i"].decode())
        if future is not None and not future.done():
            future.set_result((fields[b"o"] == b"1", fields[b"b"]))

    def _wake_all(self) -> None:
        """What was asked before the connection was lost may never be answered: let each asker ask again."""
        for future in self._waiting.values():
            if not future.done():
                future.set_result(None)


_REFUSAL = TypeAdapter(Refusal)


def _refused(body: bytes) -> RequestFailed:
    failure = _REFUSAL.validate_json(body).error
    return RequestFailed(failure.code, failure.message, **failure.details)


def deadline_ms(seconds: float) -> int:
    """A request's deadline that many seconds from now, as `Envelope.deadline`."""
    return int((time.time() + seconds) * 1000)


def is_past(deadline: int) -> bool:
    """Whether an envelope's deadline has passed."""
    return time.time() * 1000 > deadline
