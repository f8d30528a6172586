"""A load balancer between followers and gateways, with weather: frames are lost, repeated, late and out of order.

It tells nothing wrong and keeps every reply in its place. Endings (terminal frames and `session.removed`) pass: they
are told once, so that a network that lost them without losing the socket would be none that anything can stand on.
"""

import asyncio
import random
from collections import deque
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import aiohttp
import orjson
from aiohttp import web

from deploy.local.ports import Ports
from shared.contracts.wire import CHANGED, SUBSCRIBE

LATE_SECONDS = 0.3
"""Longest delay of what is late: enough for several commits and a whole page to overtake it."""
REMEMBERED = 8
"""Frames that may be repeated out of their place."""


@dataclass(frozen=True, slots=True)
class Weather:
    """Probabilities, for each frame: that it is lost, repeated, late with all that follow, overtaken by the next ones,
    or the last one of its socket. For each HTTP answer: that it is lost, or late.
    """

    lose: float = 0.0
    repeat: float = 0.0
    delay: float = 0.0
    reorder: float = 0.0
    cut: float = 0.0


CALM = Weather()


@dataclass(slots=True)
class Ledger:
    """What gateways sent, before any weather: in each subscription, intervals that begin where the last one ended, or
    later.
    """

    frames: int = 0
    gaps: int = 0
    violations: list[str] = field(default_factory=list)


class _Lane:
    """One socket: what its gateway said of each scope, and the frames that the weather holds back."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._sent: dict[str, tuple[str, int] | None] = {}
        self.overtaken: list[str] = []
        self.passed: deque[str] = deque(maxlen=REMEMBERED)

    def note(self, message: dict[str, Any]) -> None:
        payload = message.get("payload") or {}
        if message.get("action") == SUBSCRIBE and payload.get("success"):
            self._sent[payload["scope_id"]] = payload["epoch"], int(payload["revision"])
        elif message.get("action") == CHANGED:
            self._note_frame(payload)

    def _note_frame(self, payload: dict[str, Any]) -> None:
        scope = payload["scope_id"]
        if payload.get("reset") or payload.get("terminal"):
            self._sent[scope] = None
            return
        self._ledger.frames += 1
        epoch, base, revision = payload["epoch"], int(payload["base_revision"]), int(payload["revision"])
        last = self._sent.get(scope)
        if last is not None:
            told = f"{scope} at {last}: frame ({base}, {revision}] of {epoch}, check={payload.get('check')}"
            if epoch != last[0] or (payload.get("check") and revision < last[1]):
                self._ledger.violations.append(told)
            elif not payload.get("check"):
                if base < last[1] or revision <= base:
                    self._ledger.violations.append(told)
                self._ledger.gaps += base > last[1]
        if not payload.get("check"):
            self._sent[scope] = epoch, revision


class Network:
    """Use it as an asynchronous context. `url`: where followers connect. `weather` may be changed at any time."""

    def __init__(self, gateways: list[str], ports: Ports, seed: int) -> None:
        self.weather = CALM
        self.ledger = Ledger()
        self._gateways = gateways
        self._chance = random.Random(seed)
        self._port = ports.private()
        self._sockets: set[web.WebSocketResponse] = set()
        self._runner: web.AppRunner
        self._http: aiohttp.ClientSession

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def __aenter__(self) -> Self:
        self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20))
        application = web.Application()
        application.router.add_get("/ws", self._websocket)
        application.router.add_route("GET", "/{path:.*}", self._page)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.cut_all()
        await self._runner.cleanup()
        await self._http.close()

    async def cut_all(self) -> None:
        """Ends every connection."""
        await asyncio.gather(*(socket.close() for socket in tuple(self._sockets)))

    def _any_order(self) -> list[str]:
        return self._chance.sample(self._gateways, len(self._gateways))

    def _happens(self, probability: float) -> bool:
        return self._chance.random() < probability

    async def _page(self, request: web.Request) -> web.Response:
        if self._happens(self.weather.delay):
            await asyncio.sleep(self._chance.random() * LATE_SECONDS)
        for gateway in self._any_order():
            try:
                async with self._http.get(gateway + request.path_qs) as answer:
                    body, status = await answer.read(), answer.status
            except (aiohttp.ClientError, TimeoutError):
                continue
            if self._happens(self.weather.delay):
                await asyncio.sleep(self._chance.random() * LATE_SECONDS)
            if self._happens(self.weather.lose):
                break
            return web.Response(body=body, status=status, content_type="application/json")
        return web.json_response({"error": "no gateway answers"}, status=504)

    async def _websocket(self, request: web.Request) -> web.StreamResponse:
        gateway = await self._connect()
        if gateway is None:
            return web.Response(status=502)
        socket = web.WebSocketResponse(max_msg_size=0, compress=False)
        try:
            await socket.prepare(request)
        except ConnectionError:  # the client did not wait for it
            await gateway.close()
            raise web.HTTPBadGateway from None
        self._sockets.add(socket)
        ways = {asyncio.create_task(self._up(socket, gateway)), asyncio.create_task(self._down(socket, gateway))}
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._sockets.discard(socket)
            for way in ways:
                way.cancel()
            for ended in await asyncio.gather(*ways, return_exceptions=True):
                if isinstance(ended, Exception) and not isinstance(ended, aiohttp.ClientError | ConnectionError):
                    self.ledger.violations.append(f"a frame that cannot be read: {ended!r}")
            await gateway.close()
            await socket.close()
        return socket

    async def _connect(self) -> aiohttp.ClientWebSocketResponse | None:
        for url in self._any_order():
            try:
                return await self._http.ws_connect(url + "/ws", max_msg_size=0, compress=0, heartbeat=10)
            except (aiohttp.ClientError, TimeoutError):
                continue
        return None

    async def _up(self, socket: web.WebSocketResponse, gateway: aiohttp.ClientWebSocketResponse) -> None:
        async for message in socket:
            if message.type is aiohttp.WSMsgType.TEXT:
                await gateway.send_str(message.data)

    async def _down(self, socket: web.WebSocketResponse, gateway: aiohttp.ClientWebSocketResponse) -> None:
        lane = _Lane(self.ledger)
        async for message in gateway:
            if message.type not in {aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY}:
                continue
            text = message.data if isinstance(message.data, str) else message.data.decode()
            found = orjson.loads(text)
            lane.note(found)
            if self._happens(self.weather.delay):
                await asyncio.sleep(self._chance.random() * LATE_SECONDS)
            frame = found.get("action") == CHANGED and not found["payload"].get("terminal")
            for each in self._through(lane, text) if frame else [*self._released(lane), text]:
                await socket.send_str(each)
            if frame and self._happens(self.weather.cut):
                return

    def _through(self, lane: _Lane, frame: str) -> list[str]:
        """What arrives when a frame was sent, in this order."""
        if self._happens(self.weather.lose):
            return []
        if self._happens(self.weather.reorder):
            lane.overtaken.append(frame)
            return []
        arriving = [frame]
        if self._happens(self.weather.repeat):
            arriving.append(self._chance.choice((frame, *lane.passed)))
        lane.passed.append(frame)
        return arriving + ([] if self._happens(self.weather.reorder) else self._released(lane))

    def _released(self, lane: _Lane) -> list[str]:
        """The frames that were overtaken, in any order."""
        late, lane.overtaken = lane.overtaken, []
        self._chance.shuffle(late)
        lane.passed.extend(late)
        return late
