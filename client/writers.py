"""The write routes of the gateway, as a program uses them: every write carries its own ids and is asked again, with
growing pauses, for as long as the answer may still change.
"""

import asyncio
import random
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

import aiohttp
import orjson
from pydantic import Field, ValidationError

from client.reasons import reason
from shared.contracts.base import Contract, Timestamp

JSON = Mapping[str, object]
ModelT = TypeVar("ModelT", bound=Contract)

ATTEMPTS = 8
"""How often one write is sent at most: with the pauses below that outlasts a restart of any one service."""
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
ANSWER_SECONDS = 30.0
"""Longest wait for one answer: several times what the gateway itself waits for the write boundary."""

HIDDEN_PROMPTS = "has_hidden_prompts"
"""What the gateway adds to the metadata of a message from which it strips something; it is not stored."""

_API = "/api/v1"


class WriteError(Exception):
    """A write that did not come about. `WriteRefused` and `Unreachable` are its kinds."""


class WriteRefused(WriteError):
    """The gateway's typed answer. `code` as in the table of errors; `details` for programs."""

    def __init__(self, status: int, code: str, message: str, *, retryable: bool, details: JSON) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retryable = retryable
        self.details = details


class Unreachable(WriteError):
    """No usable answer from `url`, however often it was asked."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"{url} does not answer ({reason})")
        self.url = url


@dataclass(frozen=True, slots=True)
class Written:
    """What the commit did to the session. Equal revisions: it had been done before."""

    session_id: str
    base_revision: int
    revision: int

    @property
    def changed(self) -> bool:
        """Whether this write, and not an earlier one, changed the session."""
        return self.revision != self.base_revision


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to create. `created_at` None: now, settled by the source."""

    id: str
    author_type: str
    content: str
    type: str = "message"
    turn_id: str | None = None
    metadata: JSON = field(default_factory=dict)
    created_at: str | None = None


class ListedSession(Contract):
    """A session as the gateway lists it, with its current revision."""

    id: str
    task_id: str
    state: str
    is_passthrough: bool = False
    started_at: Timestamp | None = None
    completed_at: Timestamp | None = None
    updated_at: Timestamp
    revision: int


class _Sessions(Contract):
    sessions: tuple[ListedSession, ...]


class _Task(Contract):
    id: str
    title: str


class _Tasks(Contract):
    tasks: tuple[_Task, ...]


class _StoredMessage(Contract):
    content: str
    raw_content: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)


class _StoredMessages(Contract):
    messages: tuple[_StoredMessage, ...]


class _User(Contract):
    id: str


class _Asker(Contract):
    mode: str
    user: _User | None


class Writers:
    """A connection to the write routes at `url`, and to what a writer asks before it writes. Use it as an asynchronous
    context. `token`: a personal access token.

    Every method raises `WriteRefused` or `Unreachable`; each is safe to repeat.
    """

    def __init__(
        self, url: str, *, token: str | None = None, attempts: int = ATTEMPTS, first_pause: float = FIRST_PAUSE
    ) -> None:
        self.url = url.rstrip("/")
        self._attempts = attempts
        self._first_pause = first_pause
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._http = aiohttp.ClientSession(headers=self._headers, timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._http is not None:
            await self._http.close()

    async def reach(self) -> None:
        """Asks once whether a gateway is there. Raises `Unreachable`."""
        try:
            async with self._session.get(f"{self.url}/health") as answer:
                await answer.read()
        except (aiohttp.ClientError, TimeoutError, ValueError, OSError) as error:
            raise Unreachable(self.url, reason(error)) from None

    async def sessions(self, task_id: str | None = None) -> tuple[ListedSession, ...]:
        """Sessions, newest first, as many as the gateway lists; of one task where it is named."""
        query = "" if task_id is None else f"?task_id={quote(task_id, safe='')}"
        body = await self._asked("GET", f"/task-sessions{query}")
        return _read(_Sessions, body).sessions

    async def task_titles(self) -> Mapping[str, str]:
        """Titles by the ids of tasks, of the newest ones, as many as the gateway lists."""
        body = await self._asked("GET", "/tasks")
        return {task.id: task.title for task in _read(_Tasks, body).tasks}

    async def user(self) -> str | None:
        """The id of the user who asks; None: people do not sign in at this gateway."""
        asker = _read(_Asker, await self._asked("GET", "/auth/me"))
        if asker.mode == "disabled":
            return None
        if asker.user is None:
            raise _refusal(401, None)
        return asker.user.id

    async def sees_workspace(self, workspace_id: str) -> bool:
        """Whether there is such a workspace that the asker sees."""
        return await self._found(f"/workspaces/{_path(workspace_id)}/members") is not None

    async def is_taken(self, session_id: str) -> bool:
        """Whether there is such a session, seen by the asker or not. A write that cannot come about tells it: one into
        a task that nobody has made.
        """
        try:
            await self.create_session(session_id, str(uuid.uuid4()))
        except WriteRefused as refused:
            if refused.status not in {404, 409}:
                raise
            return refused.status == 409
        raise AssertionError("a session of a task that is not there is refused")

    async def message(self, session_id: str, message_id: str) -> tuple[str, JSON] | None:
        """Text and metadata of a message as they are stored; None where the session has no such message."""
        path = f"/task-sessions/{_path(session_id)}/messages?limit=1&around={_path(message_id)}"
        body = await self._found(path)
        if body is None:
            return None
        (stored,) = _read(_StoredMessages, body).messages
        if stored.raw_content is None:
            return stored.content, stored.metadata
        return stored.raw_content, {name: stored.metadata[name] for name in stored.metadata if name != HIDDEN_PROMPTS}

    async def create_workspace(self, workspace_id: str, name: str) -> Written:
        """Creates a workspace."""
        return await self._write("POST", "/workspaces", {"id": workspace_id, "name": name})

    async def create_task(self, task_id: str, workspace_id: str, title: str) -> Written:
        """Creates a task of a workspace."""
        return await self._write("POST", "/tasks", {"id": task_id, "workspace_id": workspace_id, "title": title})

    async def delete_task(self, task_id: str) -> Written:
        """Deletes a task and its sessions."""
        return await self._write("DELETE", f"/tasks/{_path(task_id)}")

    async def create_session(
        self,
        session_id: str,
        task_id: str,
        *,
        state: str | None = None,
        started_at: str | None = None,
        metadata: JSON | None = None,
    ) -> Written:
        """Creates a session of a task."""
        optional = {"state": state, "started_at": started_at, "metadata": metadata}
        return await self._write("POST", "/task-sessions", {"id": session_id, "task_id": task_id, **_given(optional)})

    async def update_session(self, session_id: str, state: str) -> Written:
        """Replaces the state of a session."""
        return await self._write("PATCH", f"/task-sessions/{_path(session_id)}", {"state": state})

    async def delete_session(self, session_id: str) -> Written:
        """Deletes a session with its messages and turns."""
        return await self._write("DELETE", f"/task-sessions/{_path(session_id)}")

    async def create_message(self, session_id: str, message: NewMessage) -> Written:
        """Creates a message."""
        body = {
            "id": message.id,
            "author_type": message.author_type,
            "content": message.content,
            "type": message.type,
            "metadata": message.metadata,
            **_given({"turn_id": message.turn_id, "created_at": message.created_at}),
        }
        return await self._write("POST", f"/task-sessions/{_path(session_id)}/messages", body)

    async def append(self, session_id: str, message_id: str, offset: int, text: str) -> Written:
        """Appends `text` at character `offset`. A conflict's details name the true `length`."""
        path = f"/task-sessions/{_path(session_id)}/messages/{_path(message_id)}/append"
        return await self._write("POST", path, {"offset": offset, "text": text})

    async def update_message(
        self,
        session_id: str,
        message_id: str,
        changes: JSON,
        *,
        expected_updated_at: str | None = None,
        expected_revision: int | None = None,
    ) -> Written:
        """Replaces the fields in `changes`, provided that the row or the session is still at what is expected."""
        guard = _given({"expected_updated_at": expected_updated_at, "expected_revision": expected_revision})
        path = f"/task-sessions/{_path(session_id)}/messages/{_path(message_id)}"
        return await self._write("PATCH", path, {**changes, **guard})

    async def delete_message(self, session_id: str, message_id: str) -> Written:
        """Deletes a message."""
        return await self._write("DELETE", f"/task-sessions/{_path(session_id)}/messages/{_path(message_id)}")

    async def start_turn(
        self, session_id: str, turn_id: str, *, started_at: str | None = None, metadata: JSON | None = None
    ) -> Written:
        """Starts a turn."""
        body = {"id": turn_id, **_given({"started_at": started_at, "metadata": metadata})}
        return await self._write("POST", f"/task-sessions/{_path(session_id)}/turns", body)

    async def complete_turn(self, session_id: str, turn_id: str, *, completed_at: str | None = None) -> Written:
        """Completes a turn."""
        path = f"/task-sessions/{_path(session_id)}/turns/{_path(turn_id)}/complete"
        return await self._write("POST", path, _given({"completed_at": completed_at}))

    @property
    def _session(self) -> aiohttp.ClientSession:
        if self._http is None:
            raise RuntimeError("use Writers as an asynchronous context")
        return self._http

    async def _write(self, method: str, path: str, body: JSON | None = None) -> Written:
        told = await self._asked(method, path, body)
        try:
            return Written(str(told["session_id"]), int(str(told["base_revision"])), int(str(told["revision"])))
        except (KeyError, ValueError):
            raise _refusal(200, None) from None

    async def _found(self, path: str) -> JSON | None:
        try:
            return await self._asked("GET", path)
        except WriteRefused as refused:
            if refused.status != 404:
                raise
            return None

    async def _asked(self, method: str, path: str, body: JSON | None = None) -> JSON:
        payload = None if body is None else orjson.dumps(body)
        last: WriteError = Unreachable(self.url, "never asked")
        for attempt in range(self._attempts):
            if attempt:
                await asyncio.sleep(self._pause(attempt))
            try:
                return await self._once(method, f"{self.url}{_API}{path}", payload)
            except WriteRefused as refused:
                if not refused.retryable:
                    raise
                last = refused
            except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
                last = Unreachable(self.url, reason(error))
        raise last

    def _pause(self, attempt: int) -> float:
        longest = min(LONGEST_PAUSE, self._first_pause * 2.0 ** (attempt - 1))
        return longest * random.uniform(0.5, 1.0)

    async def _once(self, method: str, url: str, payload: bytes | None) -> JSON:
        headers = {"Content-Type": "application/json"} if payload is not None else {}
        async with self._session.request(method, url, data=payload, headers=headers) as answer:
            content = await answer.read()
            try:
                body = orjson.loads(content)
            except orjson.JSONDecodeError:
                body = None
            if answer.status != 200 or not isinstance(body, dict):
                raise _refusal(answer.status, body)
            return body


def _read(model: type[ModelT], body: JSON) -> ModelT:
    try:
        return model.model_validate(body)
    except ValidationError:
        raise _refusal(200, None) from None


def _refusal(status: int, body: object) -> WriteRefused:
    error = body.get("error") if isinstance(body, dict) else None
    if status == 401:
        return WriteRefused(status, "unauthenticated", "nobody is signed in", retryable=False, details={})
    if not isinstance(error, dict):
        return WriteRefused(
            status,
            "unexpected_answer",
            f"HTTP status {status} without a typed answer: expected a gateway of this service",
            retryable=status >= 500,
            details={},
        )
    details = error.get("details")
    return WriteRefused(
        status,
        str(error.get("code", "")),
        str(error.get("message", "")),
        retryable=error.get("retryable") is True,
        details=details if isinstance(details, dict) else {},
    )


def _given(fields: JSON) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}


def _path(identifier: str) -> str:
    return quote(identifier, safe="")
