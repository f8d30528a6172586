"""One WebSocket and one HTTP session to a gateway, shared by any number of followers."""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from types import TracebackType
from typing import Any, Literal, Protocol, Self

import aiohttp
import orjson

from client.reasons import reason
from shared.contracts.wire import CHANGED, SESSION_REMOVED

log = logging.getLogger(__name__)

FIRST_DELAY = 0.05
"""Seconds up to which the first reconnect waits; the bound doubles with each failure."""

LONGEST_DELAY = 2.0
"""Seconds up to which a reconnect waits at most. The wait is random below its bound, so that clients do not return
together.
"""

HEARTBEAT = 10.0
"""Seconds between pings. A gateway that leaves one unanswered for half as long counts as lost."""

CLOSING = aiohttp.ClientWSTimeout(ws_close=1.0)
"""How long a close waits for the gateway's own, in seconds."""

ANSWER_SECONDS = 10.0
"""Seconds until a request without an answer counts as failed."""

LONGEST_RETRY_AFTER = 60.0
"""Most seconds that an answer can put the next request off by."""

SIGNED_OUT = 4401
"""Close code of a connection whose credential has ended: no other one will be opened with it."""

MAX_MESSAGE_BYTES = 64 << 20
"""Largest message taken from the gateway. Frames end at 1 MiB, but one row may be larger than that on its own."""

Answered = Callable[[dict[str, Any] | None], None]
"""Takes the payload of a reply; None when none came in time, or an error did. Not called when the connection is lost
first.
"""


class ConnectionFailed(Exception):
    """Nothing that can be used answers at the URL. `refused`: a gateway does, with this status: it does not take the
    identity (401), or the host name or origin (403).
    """

    def __init__(self, url: str, reason: str, *, refused: Literal[401, 403] | None = None) -> None:
        super().__init__(
            f"no gateway answers at {url}: {reason}"
            if refused is None
            else f"the gateway at {url} refuses this client: {reason}"
        )
        self.refused = refused


class Listener(Protocol):
    """What a connection tells a follower. Called in the order of the socket, one call at a time, never from another
    thread.
    """

    def connected(self) -> None:
        """Requests can be sent."""

    def disconnected(self) -> None:
        """The socket is lost, and every subscription with it."""

    def changed(self, payload: dict[str, Any], size: int) -> None:
        """A frame of this follower's scope."""

    def removed(self) -> None:
        """This follower's session was removed."""

    def refused(self) -> None:
        """The gateway no longer accepts this identity: the connection does not come back."""


@dataclass(frozen=True, slots=True)
class _Entry:
    session_id: str
    listener: Listener


class Connection:
    """Connects, reconnects with full jitter, and hands each message to whom it concerns.

    `async with Connection(url)` makes one attempt and raises `ConnectionFailed` when that fails; from then on it
    reconnects by itself until it is closed. `url`: the gateway's, as in `http://127.0.0.1:8080`. `token`: a personal
    access token.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        heartbeat: float = HEARTBEAT,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.url = url.rstrip("/")
        self.chance = chance
        self._heartbeat = heartbeat
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._session: aiohttp.ClientSession | None = None
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._listeners: dict[str, _Entry] = {}
        self._answers: dict[str, tuple[Answered, asyncio.TimerHandle]] = {}
        self._ids = count(1)
        self._sending: set[asyncio.Task[None]] = set()
        self._running: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            headers=self._headers, timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        )
        try:
            socket = await self._open()
        except BaseException:
            await self._session.close()
            raise
        self._running = asyncio.create_task(self._run(socket), name="connection")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        failures: list[Exception] = []
        if self._running is not None:
            self._running.cancel()
            results = await asyncio.gather(self._running, *self._sending, return_exceptions=True)
            failures = [result for result in results if isinstance(result, Exception)]
        if self._session is not None:
            await self._session.close()
        if failures and error is None:
            raise failures[0]

    @property
    def open(self) -> bool:
        """Whether requests can be sent."""
        return self._socket is not None

    def add(self, scope_id: str, session_id: str, listener: Listener) -> None:
        """Hands the scope's frames to the listener from now on."""
        self._listeners[scope_id] = _Entry(session_id, listener)
        if self.open:
            listener.connected()

    def drop(self, scope_id: str) -> None:
        """Hands nothing of the scope to anyone any more."""
        self._listeners.pop(scope_id, None)

    def ask(self, action: str, payload: Mapping[str, Any], answered: Answered) -> None:
        """Sends a request. `answered` is called in the order of the socket, so that a reply is taken before what
        follows it.
        """
        socket = self._socket
        if socket is None:
            answered(None)
            return
        request = str(next(self._ids))
        timer = asyncio.get_running_loop().call_later(ANSWER_SECONDS, self._answer, request, None)
        self._answers[request] = answered, timer
        message = orjson.dumps({"id": request, "type": "request", "action": action, "payload": payload}).decode()
        task = asyncio.create_task(self._send(socket, message), name="send")
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def get(self, path: str, query: list[tuple[str, str]]) -> tuple[int, dict[str, Any], float]:
        """Status and JSON object of an HTTP answer, and the seconds of its `Retry-After`. Status 0: none came, or not a
        JSON object.
        """
        if self._session is None:
            raise RuntimeError("a connection is used inside `async with`")
        try:
            async with self._session.get(self.url + path, params=query) as response:
                body = orjson.loads(await response.read() or b"{}")
                if isinstance(body, dict):
                    return response.status, body, _seconds(response.headers.get("Retry-After", ""))
        except (aiohttp.ClientError, TimeoutError, orjson.JSONDecodeError) as error:
            log.debug("GET %s: %s", path, type(error).__name__)
        return 0, {}, 0.0

    async def _send(self, socket: aiohttp.ClientWebSocketResponse, message: str) -> None:
        try:
            await socket.send_str(message)
        except (aiohttp.ClientError, ConnectionError) as error:
            log.debug("a request could not be sent: %s", type(error).__name__)

    def _answer(self, request: str, payload: dict[str, Any] | None) -> None:
        answered, timer = self._answers.pop(request, (None, None))
        if timer is not None:
            timer.cancel()
        if answered is not None:
            answered(payload)

    async def _open(self) -> aiohttp.ClientWebSocketResponse:
        if self._session is None:
            raise RuntimeError("a connection is used inside `async with`")
        try:
            return await asyncio.wait_for(
                self._session.ws_connect(
                    self.url + "/ws", heartbeat=self._heartbeat, timeout=CLOSING, max_msg_size=MAX_MESSAGE_BYTES
                ),
                ANSWER_SECONDS,
            )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            status = error.status if isinstance(error, aiohttp.WSServerHandshakeError) else 0
            refused: Literal[401, 403] | None = 401 if status == 401 else 403 if status == 403 else None
            raise ConnectionFailed(self.url, reason(error), refused=refused) from error

    async def _run(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        clock = asyncio.get_running_loop().time
        bound = FIRST_DELAY
        current: aiohttp.ClientWebSocketResponse | None = socket
        while True:
            if current is not None:
                began = clock()
                await self._serve(current)
                if current.close_code == SIGNED_OUT:
                    self._refuse()
                    return
                # A gateway that takes connections and drops them at once is no better than one that takes none.
                bound = FIRST_DELAY if clock() - began > LONGEST_DELAY else bound
            await asyncio.sleep(self.chance() * bound)
            bound = min(2 * bound, LONGEST_DELAY)
            try:
                current = await self._open()
            except ConnectionFailed as error:
                if error.refused is not None:
                    self._refuse()
                    return
                current = None
                log.debug("reconnect: %s", error)

    def _refuse(self) -> None:
        for entry in tuple(self._listeners.values()):
            entry.listener.refused()

    async def _serve(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        try:
            for entry in tuple(self._listeners.values()):
                entry.listener.connected()
            async for message in socket:
                if message.type in {aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY}:
                    self._received(message.data)
        finally:
            self._socket = None
            for _, timer in self._answers.values():
                timer.cancel()
            self._answers.clear()
            for entry in tuple(self._listeners.values()):
                entry.listener.disconnected()
            await socket.close()

    def _received(self, data: str | bytes) -> None:
        try:
            message = orjson.loads(data)
        except orjson.JSONDecodeError:
            log.warning("the gateway sent %d bytes that are not JSON", len(data))
            return
        if not isinstance(message, dict):
            return
        payload = message.get("payload")
        if message.get("type") in {"response", "error"}:
            usable = message["type"] == "response" and isinstance(payload, dict)
            self._answer(str(message.get("id")), payload if usable else None)
        elif isinstance(payload, dict):
            self._pushed(message.get("action"), payload, len(data))

    def _pushed(self, action: object, payload: dict[str, Any], size: int) -> None:
        if action == CHANGED:
            scope_id = payload.get("scope_id")
            entry = self._listeners.get(scope_id) if isinstance(scope_id, str) else None
            if entry is not None:
                entry.listener.changed(payload, size)
        elif action == SESSION_REMOVED:
            for entry in tuple(self._listeners.values()):
                if entry.session_id == payload.get("session_id"):
                    entry.listener.removed()


def _seconds(told: str) -> float:
    """What a `Retry-After` says, within bounds; a date, or nonsense, says nothing."""
    return min(float(told), LONGEST_RETRY_AFTER) if told.isascii() and told.isdigit() else 0.0
