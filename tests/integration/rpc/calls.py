"""Host RPC as a stock client calls it, and rows for it to list."""

import uuid
from dataclasses import dataclass, field
from typing import Any

import grpc

from shared.host_rpc.generated import plugin_pb2 as wire
from tests.support.stack import Stack

EXECUTABLES = {
    f"server/{platform}": b"#!" for platform in ("linux-amd64", "linux-arm64", "darwin-arm64", "darwin-amd64")
}
RUNTIME = {
    "type": "binary",
    "executables": {path.removeprefix("server/"): path for path in EXECUTABLES},
}
"""A process of the plugin's own, in its manifest and its package."""

METHOD = "/kandev.plugin.v1.Host/ListMessages"

_ADD = """
INSERT INTO task_session_messages
    (id, task_session_id, task_id, author_type, content, type, turn_id, created_at, updated_at, metadata)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8::text::timestamptz, clock_timestamp(), '{"sender_task_id": "hidden-task"}')
"""


@dataclass(frozen=True, slots=True)
class Plugin:
    """An installed plugin and its token."""

    id: str
    token: str = field(repr=False)


class Calls:
    """ListMessages with a token."""

    def __init__(self, channel: grpc.aio.Channel, token: str | None) -> None:
        self._channel = channel
        self._metadata = () if token is None else (("authorization", f"Bearer {token}"),)

    # Any: the fields of the filter.
    async def page(
        self, *, limit: int = 0, cursor: str = "", seconds: float | None = 20, **wanted: Any
    ) -> wire.ListMessagesResponse:
        """One page."""
        request = wire.ListMessagesRequest(
            filter=wire.MessageFilter(**wanted), page=wire.Page(limit=limit, cursor=cursor)
        )
        answer = await self.raw(request.SerializeToString(), seconds)
        return wire.ListMessagesResponse.FromString(answer)

    async def raw(self, request: bytes, seconds: float | None = 20, method: str = METHOD) -> bytes:
        """What a request of any bytes is answered."""
        ask: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(method)
        answer: bytes = await ask(request, timeout=seconds, metadata=self._metadata)
        return answer

    async def ids(self, **wanted: Any) -> list[str]:
        """Ids of one page."""
        return [message.id for message in (await self.page(**wanted)).messages]

    async def refused(self, **wanted: Any) -> tuple[str, str]:
        """Status and text of a refused list."""
        try:
            await self.page(**wanted)
        except grpc.aio.AioRpcError as error:
            return error.code().name, error.details() or ""
        raise AssertionError("the call was answered")


class Rows:
    """Rows of one test, in a task and sessions of their own."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self.key = uuid.uuid4().hex[:8]
        self.task = f"task-{self.key}"
        self.session = f"session-{self.key}"

    async def make(self) -> "Rows":
        """Makes the task and its session."""
        await self._stack.pool.execute("INSERT INTO tasks (id, workspace_id) VALUES ($1, 'w')", self.task)
        await self._stack.session(self.session, self.task)
        return self

    async def add(
        self,
        name: str,
        created_at: str = "2026-11-30T10:00:00Z",
        *,
        content: str = "text",
        author: str = "agent",
        kind: str = "message",
        turn: str | None = None,
        session: str | None = None,
        task: str | None = None,
    ) -> str:
        """Adds a message; its id."""
        message_id = f"{name}-{self.key}"
        await self._stack.pool.execute(
            _ADD, message_id, session or self.session, task or self.task, author, content, kind, turn, created_at
        )
        return message_id
