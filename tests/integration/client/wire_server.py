"""A gateway of a few lines that speaks the wire over real sockets, with faults on demand. Its pages are the model's."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from aiohttp import WSMsgType, web

from client.events import PageFailed, ReadMessages, ReadTurns
from client.range import Body, Filter, row_of
from client.state import Scope
from shared.contracts.wire import CHANGED, SESSION_REMOVED, SUBSCRIBE, UNSUBSCRIBE
from tests.unit.client.source_model import SESSION, Commit, Name, Source, Subscription, World, projected


class WireServer:
    """Serves one session. `url` once it is started; each fault is a plain attribute or method."""

    def __init__(self) -> None:
        self.source = Source()
        self.exists = True
        self.page_rows = 100
        self.page_status = 200
        self.retry_after = 0
        self.before_page: Callable[[], Awaitable[None]] | None = None
        self.refuse_with: tuple[str, bool] | None = None
        self.losing = False
        self.unauthenticated = False
        self.falsify: str | None = None
        self.pages_read = 0
        self.mute = False
        self.sockets: list[web.WebSocketResponse] = []
        self.scopes: dict[str, tuple[web.WebSocketResponse, Subscription]] = {}
        self.unsubscribed: list[str] = []
        self.requests: list[str] = []
        self._heard = asyncio.Condition()
        self._runner: web.AppRunner | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/ws", self._websocket)
        app.router.add_get("/api/v1/task-sessions/{id}/{what}", self._page)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        await self.sever()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _notify(self) -> None:
        async with self._heard:
            self._heard.notify_all()

    async def until(self, predicate: Callable[[], bool]) -> None:
        """Waits until a request or a page has made the predicate true."""
        async with asyncio.timeout(10), self._heard:
            await self._heard.wait_for(predicate)

    # What a test does to it

    async def put(self, *bodies: Body) -> Commit:
        return await self.commit(*(((row_of(body).entity, body.id), body) for body in bodies))

    async def commit(self, *changes: tuple[Name, Body | None]) -> Commit:
        """Commits and sends the interval to every scope, unless changes are being lost."""
        commit = self.source.commit(changes)
        for scope_id, (_, known) in tuple(self.scopes.items()):
            if not self.losing:
                operations = list(projected(commit, known.scope.filter).values())
                for operation in operations:
                    if self.falsify is not None and "message" in operation:
                        operation["message"]["content"] = self.falsify
                await self.send(scope_id, str(commit.base), str(commit.revision), operations=operations)
        return commit

    async def send(self, scope_id: str, base: str, revision: str, **fields: Any) -> None:
        socket, _ = self.scopes[scope_id]
        payload = {
            "protocol_version": 2,
            "scope_id": scope_id,
            "session_id": SESSION,
            "epoch": self.source.epoch,
            "base_revision": base,
            "revision": revision,
            "operations": [],
            **fields,
        }
        await self._write(socket, {"type": "notification", "action": CHANGED, "payload": payload})

    async def to_all(self, base: str, revision: str, **fields: Any) -> None:
        for scope_id in tuple(self.scopes):
            await self.send(scope_id, base, revision, **fields)

    async def check(self) -> None:
        await self.to_all(str(self.source.revision), str(self.source.revision), check=True)

    async def remove_session(self) -> None:
        self.exists = False
        for socket in self.sockets:
            message = {"type": "notification", "action": SESSION_REMOVED, "payload": {"session_id": SESSION}}
            await self._write(socket, message)

    async def sever(self) -> None:
        self.scopes.clear()
        for socket in tuple(self.sockets):
            await socket.close()

    # The wire

    @staticmethod
    async def _write(socket: web.WebSocketResponse, message: dict[str, Any]) -> None:
        await socket.send_str(orjson.dumps(message).decode())

    async def _websocket(self, request: web.Request) -> web.WebSocketResponse:
        if self.unauthenticated:
            raise web.HTTPUnauthorized
        socket = web.WebSocketResponse(autoping=not self.mute)
        await socket.prepare(request)
        self.sockets.append(socket)
        try:
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    await self._requested(socket, orjson.loads(message.data))
                    await self._notify()
        finally:
            self.sockets.remove(socket)
            self.scopes = {name: entry for name, entry in self.scopes.items() if entry[0] is not socket}
        return socket

    async def _requested(self, socket: web.WebSocketResponse, message: dict[str, Any]) -> None:
        payload = message["payload"]
        self.requests.append(message["action"])
        reply = {"id": message["id"], "type": "response", "action": message["action"]}
        if message["action"] == UNSUBSCRIBE:
            self.unsubscribed.append(payload["scope_id"])
            self.scopes.pop(payload["scope_id"], None)
            await self._write(socket, {**reply, "payload": {"success": True}})
            return
        assert message["action"] == SUBSCRIBE
        assert payload["consumer_kind"] == "core"
        refusal = ("not_found", False) if not self.exists or payload["session_id"] != SESSION else self.refuse_with
        scope_id = payload["scope_id"]
        self.scopes.pop(scope_id, None)
        if refusal is not None:
            error = {"code": refusal[0], "message": "refused", "retryable": refusal[1]}
            await self._write(socket, {**reply, "payload": {"success": False, "error": error}})
            return
        scope = Scope(SESSION, scope_id, Filter(payload.get("task_id"), tuple(payload.get("authors", ()))))
        self.scopes[scope_id] = socket, Subscription(scope, self.source.revision)
        opened = {
            "success": True,
            "protocol_version": 2,
            "scope_id": scope_id,
            "session_id": SESSION,
            "epoch": self.source.epoch,
            "revision": str(self.source.revision),
        }
        await self._write(socket, {**reply, "payload": opened})

    async def _page(self, request: web.Request) -> web.Response:
        response = await self._page_of(request)
        self.pages_read += 1
        await self._notify()
        return response

    async def _page_of(self, request: web.Request) -> web.Response:
        if self.before_page is not None:
            await self.before_page()
        if not self.exists or request.match_info["id"] != SESSION:
            return web.json_response({"error": {"code": "not_found"}}, status=404)
        if self.page_status != 200:
            error, headers = {"code": "unavailable", "retryable": True}, {"Retry-After": str(self.retry_after)}
            return web.json_response({"error": error}, status=self.page_status, headers=headers)
        query = request.query
        authors = tuple(name for name in ("user", "agent") if name in query.getall("author_type", []))
        pages = World(Filter(query.get("task_id"), authors), min(self.page_rows, int(query["limit"])), self.source)
        asked = (
            ReadMessages(0, query.get("before"))
            if request.match_info["what"] == "messages"
            else ReadTurns(0, query.get("after"))
        )
        page = pages.page(asked, self.source.revision, self.source.rows)
        if isinstance(page, PageFailed):
            return web.json_response({"error": {"code": "invalid_cursor"}}, status=page.status)
        rows = [row.model_dump(exclude_none=True) for row in page.rows]
        position = {"has_more": page.has_more, "epoch": page.epoch, "revision": str(page.revision), "total": len(rows)}
        return web.json_response({request.match_info["what"]: rows, **position})
