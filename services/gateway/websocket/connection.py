"""One client's connection: its requests, its scopes and its way out."""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import orjson
from aiohttp import WSMsgType, web
from pydantic import ValidationError

from services.gateway.identity.caller import Caller
from services.gateway.metrics import CLOSE_CODES, CLOSES, RESETS
from services.gateway.scopes.hub import Hub
from services.gateway.scopes.scope import Offer, Phase, Scope
from services.gateway.surrogates import is_unicode, lone_surrogate
from services.gateway.websocket import closes
from services.gateway.websocket.closes import Close
from services.gateway.websocket.framing import closing_frame, framed
from services.gateway.websocket.limits import Place
from services.gateway.websocket.outbox import Outbox
from shared.contracts.base import Contract
from shared.contracts.wire import ClientMessage, RequestError, RequestErrorCode
from shared.telemetry import logged_with

logger = logging.getLogger(__name__)

MAX_MESSAGE_BYTES = 8 << 20
"""Largest message that a client may send: a line of 1 MiB whatever its characters, of which JSON makes up to six bytes
each. No more than this is read before requests of as many bytes are answered: so a connection holds twice as much at
most.
"""

HEARTBEAT_SECONDS = 50.0
"""A client that does not answer a ping within half of this is gone. Half is no less than the patience with one that
takes nothing and then with its close frame: otherwise it would seldom learn why it is closed.
"""

MAX_PENDING = 512
"""Requests of one client that may be answered at the same time: twice its subscriptions, since each may be replaced
while it opens.
"""

LAST_ANSWERS_SECONDS = 5.0
"""How long a connection that is left to other gateways waits for the answers to its requests."""

Action = Callable[["Connection", ClientMessage], Awaitable[None]]


class Connection:
    """A connected client. Replies come in the order in which requests could be answered, not the one they came in."""

    def __init__(self, caller: Caller, hub: Hub, actions: Mapping[str, Action], place: Place) -> None:
        self.caller = caller
        self.hub = hub
        self.scopes: dict[str, Scope] = {}
        self._actions = actions
        self._place = place
        self._active_at = asyncio.get_running_loop().time()
        self._pending: dict[asyncio.Task[None], int] = {}
        self._page = asyncio.Lock()
        self._closing: asyncio.Task[None] | None = None
        # Futures rather than events, of which each would be 800 bytes of every connection.
        self._prepared: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._socket = web.WebSocketResponse(
            heartbeat=HEARTBEAT_SECONDS, max_msg_size=MAX_MESSAGE_BYTES, compress=False, autoclose=False
        )
        self._outbox: Outbox | None = None
        self._transport: asyncio.Transport | None = None

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        """Upgrades the request and serves it until either side closes."""
        try:
            await self._socket.prepare(request)
            self._transport = transport = request.transport
        finally:
            self._prepared.set_result(None)
        if transport is None:
            return self._socket
        self._outbox = Outbox(self._socket, transport, self._has_room, self._is_blocked)
        try:
            async for message in self._socket:
                if message.type in {WSMsgType.TEXT, WSMsgType.BINARY}:
                    await self._take(message.data)
                    await self._answered_in_part()
                    await self._outbox.room()
        finally:
            self._let_go()
            self._ended.set_result(None)
            if self._closing is None:
                _count_close(self._socket.close_code or 1006)
                await self._socket.close(drain=False)
            else:
                # Both close frames are through, or the connection is lost: nothing is left to be sent.
                transport.abort()
                await asyncio.wait([self._closing])
        return self._socket

    @property
    def offer(self) -> Offer:
        """What sends or queues a WebSocket frame, once the connection is open: its outbox itself."""
        if self._outbox is None:
            return _nowhere
        return self._outbox.offer

    @property
    def queued_frames(self) -> int:
        """Frames that wait for the client to read."""
        return 0 if self._outbox is None else self._outbox.queued_frames

    @property
    def queued_bytes(self) -> int:
        """Bytes of those frames."""
        return 0 if self._outbox is None else self._outbox.queued_bytes

    def has_room(self, frames: int, size: int) -> bool:
        """Whether that many frames of `size` bytes in all could be offered now."""
        return self._outbox is not None and self._outbox.has_room(frames, size)

    def gather(self) -> None:
        """Keeps frames that are offered, until `send_gathered`."""
        if self._outbox is not None:
            self._outbox.gather()

    def send_gathered(self) -> None:
        """Sends the frames that were kept."""
        if self._outbox is not None:
            self._outbox.send_gathered()

    def notify(self, text: bytes) -> None:
        """Sends or queues what may be lost when the client has no room for it."""
        if self._outbox is not None:
            self._outbox.offer(framed(text), self)

    def lose_backlog(self) -> None:
        """Nothing: notifications that the client did not take are not missed."""

    def deliver(self, text: bytes) -> None:
        """Sends or queues what must not be lost."""
        if self._outbox is not None:
            self._outbox.deliver(text)

    def hold(self, scope: Scope) -> None:
        """Takes a scope on, of an id that is free. Raises RequestFailed `limit_exceeded`."""
        self._place.take_scope()
        self.scopes[scope.id] = scope

    def forget(self, scope: Scope) -> None:
        """A scope has ended: its session is gone."""
        if self.scopes.get(scope.id) is scope:
            del self.scopes[scope.id]
            self._place.leave_scope()

    def idle_since(self, now: float) -> float:
        """Since when the client has followed nothing and asked for nothing, as far as this was looked at: each look
        that finds it with a scope, or waiting for an answer, begins anew. Times of the event loop.
        """
        if self.scopes or self._pending:
            self._active_at = now
        return self._active_at

    @asynccontextmanager
    async def page(self) -> AsyncIterator[None]:
        """Reads one large reply within the block: one at a time, and none before the client took those before it."""
        async with self._page:
            if self._outbox is not None:
                await self._outbox.room()
            yield

    def respond(self, request: ClientMessage, payload: Contract | Mapping[str, Any]) -> None:
        """Answers a request."""
        self._reply(request.id, request.action, "response", payload)

    def refuse(
        self, request: ClientMessage, code: RequestErrorCode, message: str, details: dict[str, Any] | None = None
    ) -> None:
        """Answers a request with an error."""
        self._reply(request.id, request.action, "error", RequestError(code=code, message=message, details=details))

    async def close(self, close: Close = closes.GOING_AWAY) -> None:
        """Closes the connection; one that does not take the close frame within its patience is cut. Nothing is sent
        behind that frame, and what waited to be sent before it is dropped.
        """
        if self._closing is None:
            self.begin_close(close)
        elif self._transport is not None:
            self._transport.abort()
        if self._closing is not None:
            await asyncio.wait([self._closing])

    def begin_close(self, close: Close) -> None:
        """Begins to close the connection, unless that has begun: from now on it follows and takes nothing."""
        if self._closing is None:
            self._let_go()
            self._closing = asyncio.get_running_loop().create_task(self._close(close))

    async def leave(self) -> None:
        """Closes the connection once what it has asked for so far is answered, in so far as that comes in time."""
        if self._pending:
            await asyncio.wait(self._pending, timeout=LAST_ANSWERS_SECONDS)
        await self.close()

    async def _close(self, close: Close) -> None:
        """Says why, and waits until the client has answered: aiohttp's own way would drop a client that does not read
        at once, and stop listening to it. A client whose upgrade is under way is told as soon as it is through.
        """
        await asyncio.wait([self._prepared])
        if self._transport is None or self._transport.is_closing():
            return
        _count_close(close.code)
        self._transport.write(closing_frame(close.code, close.reason))
        await asyncio.wait([self._ended], timeout=close.patience)
        if not self._ended.done():
            logger.info("a client did not answer close %d and is cut", close.code)
            self._transport.abort()

    def _let_go(self) -> None:
        """Ends everything that would still send."""
        if self._outbox is not None:
            self._outbox.close()
        for task in self._pending:
            task.cancel()
        for scope in self.scopes.values():
            self.hub.close(scope)
        self.scopes.clear()
        self._place.leave()

    async def _take(self, data: str | bytes) -> None:
        if self._closing is not None:
            return
        self._active_at = asyncio.get_running_loop().time()
        try:
            request = ClientMessage.model_validate_json(data)
        except ValidationError:
            self._refuse_unreadable(data)
            return
        action = self._actions.get(request.action)
        if action is None:
            self.refuse(request, "UNKNOWN_ACTION", f"unknown action {request.action[:100]!r}")
        elif len(self._pending) >= MAX_PENDING:
            self.refuse(request, "BAD_REQUEST", f"more than {MAX_PENDING} requests at once; wait for replies")
        else:
            task = asyncio.get_running_loop().create_task(self._act(action, request))
            self._pending[task] = len(data)
            task.add_done_callback(self._pending.pop)
            # A step of the task runs before the next message is read: a request's effect on this connection's scopes
            # keeps the order of arrival.
            await asyncio.sleep(0)

    async def _answered_in_part(self) -> None:
        """Waits until what is being answered is small enough for more to be read."""
        while self._pending and sum(self._pending.values()) > MAX_MESSAGE_BYTES:
            await asyncio.wait(self._pending, return_when=asyncio.FIRST_COMPLETED)

    def _refuse_unreadable(self, data: str | bytes) -> None:
        """With the request's id and action as far as they can be read, so that its sender can tell which one failed."""
        message, surrogate = 'expected {"id","type":"request","action","payload":{}}', lone_surrogate(data)
        if surrogate is not None:
            message, found = surrogate.problem("the message"), surrogate.found
        else:
            try:
                found = orjson.loads(data)
            except orjson.JSONDecodeError:
                found = None
        envelope = found if isinstance(found, dict) else {}
        request_id, action = _text(envelope.get("id")), _text(envelope.get("action"))
        self._reply(request_id, action, "error", RequestError(code="BAD_REQUEST", message=message))

    async def _act(self, action: Action, request: ClientMessage) -> None:
        with logged_with(request=secrets.token_hex(8)):
            try:
                await action(self, request)
            except Exception:
                logger.exception("action %s failed", request.action)
                self.refuse(request, "INTERNAL_ERROR", "the request failed; it was logged")

    def _reply(
        self, request_id: str | None, action: str | None, kind: str, payload: Contract | Mapping[str, Any]
    ) -> None:
        if isinstance(payload, Contract):
            payload = payload.model_dump(mode="json", exclude_none=True)
        body: dict[str, Any] = {"type": kind, "payload": payload}
        if request_id is not None:
            body["id"] = request_id
        if action is not None:
            body["action"] = action
        self.deliver(orjson.dumps(body))

    def _has_room(self) -> None:
        awaiting = [scope for scope in self.scopes.values() if scope.phase is Phase.AWAITING_RESET]
        RESETS.labels("overflow").inc(len(awaiting))
        self.hub.reset_awaiting(awaiting)

    def _is_blocked(self) -> None:
        logger.info("a client took nothing for too long and is closed")
        self.begin_close(closes.SLOW_CONSUMER)


def _nowhere(frame: bytes | bytearray, owner: object) -> bool:  # noqa: ARG001 - it takes none
    """Where frames go before the connection is open."""
    return False


def _count_close(code: int) -> None:
    label = str(code)
    CLOSES.labels(label if label in CLOSE_CODES else "other").inc()


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and is_unicode(value) else None
