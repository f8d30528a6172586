"""A small gateway that keeps what it is told: the write routes over HTTP with their rules, in memory."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Row = dict[str, Any]


class Refused(Exception):
    def __init__(self, status: int, code: str, *, retryable: bool = False, **details: Any) -> None:
        super().__init__(code)
        self.status = status
        self.body = {"error": {"code": code, "message": f"{code} it is", "retryable": retryable, "details": details}}


@dataclass
class Session:
    request: Row
    revision: int = 1
    messages: dict[str, Row] = field(default_factory=dict)
    turns: dict[str, Row] = field(default_factory=dict)


@dataclass
class WriteRoutes:
    """`trouble`: every n-th request is answered 503, or its connection cut before or after it was done. `limit`: most
    bytes of a body. `reached` is set with request number `watched`.
    """

    trouble: int = 0
    limit: int = 1 << 30
    url: str = ""
    workspaces: dict[str, Row] = field(default_factory=dict)
    tasks: dict[str, Row] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)
    requests: int = 0
    watched: int = 0
    reached: asyncio.Event = field(default_factory=asyncio.Event)

    def snapshot(self) -> str:
        return json.dumps([self.workspaces, self.tasks, {key: vars(one) for key, one in self.sessions.items()}])

    async def serve_one(self, request: web.Request) -> web.StreamResponse:
        self.requests += 1
        if self.requests == self.watched:
            self.reached.set()
        kind = (self.requests // self.trouble) % 3 if self.trouble and self.requests % self.trouble == 0 else None
        raw = await request.read()
        if kind == 0:
            return web.json_response(Refused(503, "unavailable", retryable=True).body, status=503)
        if kind == 1 and request.transport is not None:
            request.transport.close()
            return web.Response()
        if request.method == "GET":
            return self.read(request)
        try:
            session_id, base, revision = self.apply(request.method, request.path.split("/")[3:], raw)
            body = {"session_id": session_id, "base_revision": str(base), "revision": str(revision)}
            answer = web.json_response(body)
        except Refused as refused:
            answer = web.json_response(refused.body, status=refused.status)
        if kind == 2 and request.transport is not None:
            request.transport.close()
        return answer

    def read(self, request: web.Request) -> web.Response:
        match request.path.split("/")[3:]:
            case ["task-sessions"]:
                task = request.query.get("task_id")
                rows = [
                    {
                        "id": session_id,
                        "task_id": session.request["task_id"],
                        "state": session.request.get("state", "CREATED"),
                        "is_passthrough": False,
                        "updated_at": "2026-01-01T00:00:00Z",
                        "revision": session.revision,
                    }
                    for session_id, session in reversed(self.sessions.items())
                    if task in {None, session.request["task_id"]}
                ]
                return web.json_response({"sessions": rows, "total": len(rows)})
            case ["auth", "me"]:
                return web.json_response({"mode": "disabled", "user": {"id": "default-user"}})
            case ["tasks"]:
                return web.json_response({"tasks": list(self.tasks.values()), "total": len(self.tasks)})
            case ["workspaces", workspace_id, "members"] if workspace_id in self.workspaces:
                return web.json_response({"workspace_id": workspace_id, "owner_id": "", "members": []})
            case ["task-sessions", session_id, "messages"] if session_id in self.sessions:
                row = self.sessions[session_id].messages.get(request.query["around"])
                if row is not None:
                    return web.json_response({"messages": [row], "total": 1})
        return web.json_response(Refused(404, "not_found").body, status=404)

    def apply(self, method: str, path: list[str], raw: bytes) -> tuple[str, int, int]:
        body = json.loads(raw) if raw else {}
        if len(raw) > self.limit:
            raise Refused(413, "limit_exceeded")
        match method, path:
            case "POST", ["workspaces"]:
                same_or_new(self.workspaces, body)
                return "", 0, 0
            case "POST", ["tasks"]:
                if body["workspace_id"] not in self.workspaces:
                    raise Refused(404, "not_found")
                same_or_new(self.tasks, body)
                return "", 0, 0
            case "POST", ["task-sessions"]:
                return self.create_session(body)
            case "PATCH", ["task-sessions", session_id] if session_id in self.sessions:
                session = self.sessions[session_id]
                session.request |= body
                return session_id, session.revision, session.revision
            case _, ["task-sessions", session_id, *rest]:
                if session_id not in self.sessions:
                    raise Refused(404, "not_found")
                session = self.sessions[session_id]
                base = session.revision
                session.revision += self.change(session, method, rest, body)
                return session_id, base, session.revision
        raise Refused(404, "not_found")

    def create_session(self, body: Row) -> tuple[str, int, int]:
        known = self.sessions.get(body["id"])
        if known is not None and known.request != body:
            raise Refused(409, "conflict")
        if body["task_id"] not in self.tasks:
            raise Refused(404, "not_found")
        if known is None:
            self.sessions[body["id"]] = Session(body)
            return body["id"], 0, 1
        return body["id"], known.revision, known.revision

    def change(self, session: Session, method: str, path: list[str], body: Row) -> int:
        match method, path:
            case "POST", ["messages"]:
                return create_message(session, body)
            case "POST", ["messages", message_id, "append"]:
                return append(session.messages[message_id], body)
            case "PATCH", ["messages", message_id]:
                return update(session, session.messages[message_id], body)
            case "POST", ["turns"]:
                return int(same_or_new(session.turns, body))
            case "POST", ["turns", turn_id, "complete"]:
                turn = session.turns[turn_id]
                done = "completed_at" in turn
                turn.setdefault("completed_at", body.get("completed_at", "now"))
                return int(not done)
        raise Refused(404, "not_found")


def same_or_new(rows: dict[str, Row], body: Row) -> bool:
    known = rows.get(body["id"])
    if known is None:
        rows[body["id"]] = dict(body)
        return True
    if {name: value for name, value in known.items() if name != "completed_at"} != body:
        raise Refused(409, "conflict")
    return False


def create_message(session: Session, body: Row) -> int:
    known = session.messages.get(body["id"])
    if known is not None:
        if {name: value for name, value in known.items() if name != "updated_at"} != body:
            raise Refused(409, "conflict")
        return 0
    turn = body.get("turn_id")
    if turn is not None and turn not in session.turns:
        raise Refused(400, "invalid_query")
    if body["author_type"] == "user" and "created_at" in body:
        times = [row["created_at"] for row in session.messages.values() if row["author_type"] == "user"]
        if times and sortable(body["created_at"]) <= max(map(sortable, times)):
            raise Refused(409, "conflict", newest=max(times, key=sortable))
    session.messages[body["id"]] = {**body, "updated_at": 1}
    return 1


def append(row: Row, body: Row) -> int:
    offset, text, content = body["offset"], body["text"], row["content"]
    if content[offset : offset + len(text)] == text and offset + len(text) <= len(content):
        return 0
    if offset != len(content):
        raise Refused(409, "conflict", length=len(content))
    row["content"] += text
    row["updated_at"] += 1
    return 1


def update(session: Session, row: Row, body: Row) -> int:
    guard = ("expected_updated_at", "expected_revision")
    changes = {name: value for name, value in body.items() if name not in guard}
    if all(row[name] == value for name, value in changes.items()):
        return 0
    expected = body.get("expected_updated_at")
    if expected not in {None, str(row["updated_at"])} or body.get("expected_revision") not in {None, session.revision}:
        raise Refused(409, "conflict", updated_at=str(row["updated_at"]))
    row.update(changes)
    row["updated_at"] += 1
    return 1


def sortable(stamp: str) -> str:
    whole, _, fraction = stamp.rstrip("Z").partition(".")
    return f"{whole}.{fraction:0<6}"


@asynccontextmanager
async def serving(routes: WriteRoutes) -> AsyncIterator[WriteRoutes]:
    async def health(_: web.Request) -> web.Response:
        return web.json_response({"status": "alive"})

    application = web.Application(client_max_size=1 << 30)
    application.router.add_get("/health", health)
    application.router.add_route("*", "/api/v1/{rest:.*}", routes.serve_one)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    routes.url = f"http://{host}:{port}"
    try:
        yield routes
    finally:
        await runner.cleanup()
