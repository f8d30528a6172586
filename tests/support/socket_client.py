"""A WebSocket client that notes everything it receives and lets tests wait for it."""

import asyncio
from collections.abc import Callable
from typing import Any, Self

import aiohttp
import orjson

from shared.contracts.plugin_wire import PluginChanged
from shared.contracts.wire import CHANGED, SESSION_REMOVED, SUBSCRIBE, UNSUBSCRIBE, AnyChanged, Changed
from tests.support.waiting import PATIENCE

Json = dict[str, Any]  # any: what came from the wire, and is looked at field by field


class SocketClient:
    """One connection. Every frame is checked against the contract as it comes."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.messages: list[Json] = []
        self.broken: list[str] = []
        """What came and was not as the contract says."""
        self._contracts: dict[str, type[AnyChanged]] = {}
        self._news = asyncio.Condition()
        self._asked = 0
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, session: aiohttp.ClientSession, url: str, **options: Any) -> Self:
        """Connects. `options` are aiohttp's."""
        return cls(await session.ws_connect(url, max_msg_size=0, **options))

    async def close(self) -> None:
        """Closes, and fails if anything came that the contract does not know."""
        await self.socket.close()
        await self._reading
        assert not self.broken, self.broken[:3]

    @property
    def closed(self) -> bool:
        """Whether the connection has ended."""
        return self._reading.done()

    async def request(self, action: str, payload: Json) -> Json:
        """Sends a request and waits for its reply: the whole envelope."""
        self._asked += 1
        request_id = str(self._asked)
        await self.send({"id": request_id, "type": "request", "action": action, "payload": payload})
        return await self.reply(request_id)

    async def send(self, message: Json) -> None:
        """Sends one message and waits for nothing."""
        await self.socket.send_bytes(orjson.dumps(message))

    async def reply(self, request_id: str) -> Json:
        """The reply to a request."""
        await self.until(lambda: any(each.get("id") == request_id for each in self.messages))
        return next(each for each in self.messages if each.get("id") == request_id)

    async def subscribe(self, session_id: str, scope_id: str = "scope", **more: Any) -> Json:
        """Subscribes, as a core consumer unless it is said otherwise; the reply's payload."""
        payload = {"session_id": session_id, "scope_id": scope_id, "consumer_kind": "core", **more}
        self._contracts[scope_id] = PluginChanged if payload["consumer_kind"] == "plugin" else Changed
        reply = await self.request(SUBSCRIBE, payload)
        assert reply["type"] == "response"
        found: Json = reply["payload"]
        return found

    async def unsubscribe(self, scope_id: str = "scope", **more: Any) -> Json:
        """Unsubscribes; the reply's payload."""
        reply = await self.request(UNSUBSCRIBE, {"scope_id": scope_id, **more})
        found: Json = reply["payload"]
        return found

    def frames(self, scope_id: str = "scope") -> list[Json]:
        """The frames of a scope so far, checks included."""
        return [
            each["payload"]
            for each in self.messages
            if each["action"] == CHANGED and each["payload"]["scope_id"] == scope_id
        ]

    def told(self, scope_id: str = "scope") -> list[Json]:
        """The frames of a scope so far, without checks."""
        return [frame for frame in self.frames(scope_id) if "check" not in frame]

    def resets(self, scope_id: str = "scope") -> int:
        """How many resets a scope was told."""
        return sum("reset" in frame for frame in self.frames(scope_id))

    def terminals(self, scope_id: str = "scope") -> int:
        """How often a scope was ended."""
        return sum("terminal" in frame for frame in self.frames(scope_id))

    def removals(self, session_id: str) -> int:
        """How often the connection was told that a session is gone."""
        return sum(
            each["action"] == SESSION_REMOVED and each["payload"] == {"session_id": session_id}
            for each in self.messages
        )

    async def until(self, met: Callable[[], bool]) -> None:
        """Waits until a condition on what was received holds."""
        try:
            async with asyncio.timeout(PATIENCE), self._news:
                await self._news.wait_for(lambda: met() or self.closed)
        except TimeoutError:
            raise AssertionError(f"it was not received; the last that was: {self.messages[-5:]!r:.2000}") from None
        if not met():
            raise AssertionError(f"the connection ended with {self.socket.close_code} before that was received")

    async def reached(self, revision: int, scope_id: str = "scope") -> None:
        """Waits until a scope was told a revision or a later one, by a change or a check."""
        await self.until(lambda: any(int(frame["revision"] or -1) >= revision for frame in self.frames(scope_id)))

    async def ended(self) -> int | None:
        """Waits for the connection's end; the close code."""
        await asyncio.wait_for(asyncio.shield(self._reading), PATIENCE)
        return self.socket.close_code

    async def _read(self) -> None:
        async for message in self.socket:
            if message.type in {aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY}:
                await self._note(message.data)
        async with self._news:
            self._news.notify_all()

    async def _note(self, data: str | bytes) -> None:
        found = orjson.loads(data)
        if found.get("action") == CHANGED:
            try:
                self._contracts.get(found["payload"]["scope_id"], Changed).model_validate(found["payload"])
            except ValueError as error:
                self.broken.append(str(error))
        async with self._news:
            self.messages.append(found)
            self._news.notify_all()
