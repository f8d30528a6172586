"""A conversation as plugins read it: the binding, pages of messages and turns, the revision.

Checks come in one order, whatever else is wrong: who asks; the plugin, unknown, inactive and not entitled alike; the
binding; the query; the session, missing and foreign alike; its task; the cursor; the expected revision.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from aiohttp import web

from services.gateway.http.bodies import encoded
from services.gateway.http.errors import BadRequest
from services.gateway.http.keys import BINDINGS, CALLER, CURSORS, HUB, IDENTITY, REGISTRY, SOURCE
from services.gateway.http.queries import authors_named, require_storable
from services.gateway.http.routes import Answer, Json, Parameter, Route, concise_errors
from services.gateway.ids import named
from services.gateway.metrics import count_page
from services.gateway.plugins.bindings import BindingInvalid, GenerationSuperseded
from services.gateway.plugins.cursors import CursorInvalid, Selection
from services.gateway.plugins.registry import ActivePlugin
from services.gateway.scopes.rows import plugin_message, plugin_turn
from shared.contracts.errors import RequestFailed
from shared.contracts.plugin_wire import BindingBody, MessagesBody, RevisionBody, TurnsBody
from shared.contracts.reads import (
    MAX_PAGE_ROWS,
    After,
    Before,
    MessagesAnswer,
    MessagesPage,
    Sort,
    TurnsAnswer,
    TurnsPage,
)
from shared.contracts.rows import AuthorType
from shared.times import format_microseconds
from shared.tokens import CursorClaims

BINDING_HEADER = "X-Kandev-Plugin-Binding"
MANAGED_HEADER = "X-Kandev-Managed-Conversation"

DEFAULT_LIMIT = 20
"""Rows of a page that names no limit."""

EVERY_TASK = "null"
"""The value of `task_id` that says what leaving it out says."""

MAX_REVISION = (1 << 63) - 1

_DIGITS = re.compile(r"[0-9]{1,19}")

_NO_SESSION = "task session not found"


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A page that is asked for through a plugin. `claims`: of its cursor."""

    plugin: ActivePlugin
    selection: Selection
    claims: CursorClaims | None
    expected_revision: int | None

    @property
    def position(self) -> Before | After | None:
        """Where the page begins."""
        if self.claims is None:
            return None
        return (After if self.selection.sort == "asc" else Before)(row=self.claims.position)

    def require(self, answer: MessagesAnswer | TurnsAnswer) -> None:
        """Raises RequestFailed when the answer's snapshot is not what the request expects."""
        _require_task(self.selection, answer.task_id)
        current = (self.plugin.generation, answer.epoch)
        if self.claims is not None and (self.claims.generation, self.claims.epoch) != current:
            raise RequestFailed("reconciliation_required", "conversation cursor is stale")
        if self.expected_revision not in {None, answer.revision}:
            raise RequestFailed("reconciliation_required", "conversation revision changed")
        if answer.has_more and answer.end is None:
            raise RequestFailed("upstream_failure", "conversation service returned an invalid page")


async def issue_binding(request: web.Request) -> web.Response:
    """A binding of the caller to the plugin, for ten minutes."""
    plugin = _readable(request)
    with _upstream():
        binding = request.app[BINDINGS].issue(request[CALLER], plugin)
    return encoded(
        {
            "bindingToken": binding.token,
            "generation": binding.generation,
            "expiresAt": format_microseconds(binding.expires_at),
        }
    )


async def list_messages(request: web.Request) -> web.Response:
    """A page of messages, newest first unless asked otherwise."""
    wanted = await _page_request(request, "messages")
    page = MessagesPage(
        identity=request[IDENTITY],
        session_id=wanted.selection.session_id,
        task_id=wanted.selection.task_id,
        authors=wanted.selection.authors,
        sort=wanted.selection.sort,
        limit=wanted.selection.limit,
        position=wanted.position,
    )
    count_page(request.app[HUB].follows(page.session_id))
    with _upstream():
        answer = await request.app[SOURCE].messages(page)
    wanted.require(answer)
    return encoded({"messages": [plugin_message(row) for row in answer.rows], **_place(request, wanted, answer)})


async def list_turns(request: web.Request) -> web.Response:
    """A page of turns, newest first unless asked otherwise."""
    wanted = await _page_request(request, "turns")
    page = TurnsPage(
        identity=request[IDENTITY],
        session_id=wanted.selection.session_id,
        task_id=wanted.selection.task_id,
        sort=wanted.selection.sort,
        limit=wanted.selection.limit,
        position=wanted.position,
    )
    count_page(request.app[HUB].follows(page.session_id))
    with _upstream():
        answer = await request.app[SOURCE].turns(page)
    wanted.require(answer)
    return encoded({"turns": [plugin_turn(row) for row in answer.rows], **_place(request, wanted, answer)})


async def read_revision(request: web.Request) -> web.Response:
    """Where the source stands."""
    await _bound(request)
    session_id = _session_id(request)
    with _upstream():
        answer = await request.app[SOURCE].revision(request[IDENTITY], session_id)
    if session_id not in answer.revisions:
        raise RequestFailed("not_found", _NO_SESSION)
    return encoded({"epoch": answer.epoch, "revision": str(answer.revisions[session_id])})


def _readable(request: web.Request) -> ActivePlugin:
    """The plugin of the path, if it may read messages. What is unknown, inactive or not entitled is not there."""
    plugin = request.app[REGISTRY].active(request.match_info["plugin_id"])
    if plugin is None or not plugin.may_read("messages"):
        raise RequestFailed("not_found", "plugin not found")
    return plugin


async def _bound(request: web.Request) -> ActivePlugin:
    """The plugin of the path, if the request shows a binding of its caller to it."""
    plugin = _readable(request)
    token = request.headers.get(BINDING_HEADER, "")
    bindings = request.app[BINDINGS]
    with _upstream():
        await bindings.learn(token)
    try:
        bindings.verify(token, request[CALLER], plugin)
    except (BindingInvalid, GenerationSuperseded):
        raise RequestFailed("unauthenticated", "invalid conversation binding") from None
    return plugin


async def _page_request(request: web.Request, rows: Literal["messages", "turns"]) -> PageRequest:
    plugin = await _bound(request)
    require_storable(request)
    if MANAGED_HEADER in request.headers:
        raise BadRequest("managed conversations are not supported")
    if rows == "turns" and "author_type" in request.query:
        raise BadRequest("author_type is not supported for turns")
    limit, sort, authors, task_id = _limit(request), _sort(request), _authors(request), _task(request)
    expected_revision = _expected_revision(request)
    token = _single(request, "cursor", "invalid cursor")
    selection = Selection(rows, _session_id(request), task_id, authors, sort, limit)
    claims = None if token is None else await _opened(request, plugin, selection, token)
    return PageRequest(plugin, selection, claims, expected_revision)


async def _opened(request: web.Request, plugin: ActivePlugin, selection: Selection, token: str) -> CursorClaims:
    """What the cursor says. One that is not good is told only where session and task are: they come first."""
    try:
        return request.app[CURSORS].open(token, request[CALLER], plugin, selection)
    except CursorInvalid:
        pass
    with _upstream():
        answer = await request.app[SOURCE].revision(request[IDENTITY], selection.session_id)
    if selection.session_id not in answer.tasks:
        raise RequestFailed("not_found", _NO_SESSION)
    _require_task(selection, answer.tasks[selection.session_id])
    raise BadRequest("invalid cursor")


def _require_task(selection: Selection, task_id: str) -> None:
    if selection.task_id not in {None, task_id}:
        raise BadRequest("task_id does not match the task session")


def _place(request: web.Request, wanted: PageRequest, answer: MessagesAnswer | TurnsAnswer) -> Json:
    """What a page says besides its rows."""
    cursor = None
    if answer.has_more and answer.end is not None:
        cursor = request.app[CURSORS].issue(request[CALLER], wanted.plugin, wanted.selection, answer.epoch, answer.end)
    return {
        "hasMore": answer.has_more,
        "cursor": cursor,
        "epoch": answer.epoch,
        "revision": str(answer.revision),
    }


@contextmanager
def _upstream() -> Iterator[None]:
    """Tells failures of what stands behind these routes as their clients know them: a session that is not there, or a
    request to be made again.
    """
    try:
        yield
    except RequestFailed as failed:
        if failed.failure.code == "not_found":
            raise RequestFailed("not_found", _NO_SESSION) from None
        raise RequestFailed("upstream_failure", "conversation service unavailable", **failed.failure.details) from None


def _single(request: web.Request, name: str, refusal: str) -> str | None:
    """The value of a parameter that is given once, and not empty."""
    values = request.query.getall(name, [])
    if len(values) > 1 or "" in values:
        raise BadRequest(refusal)
    return values[0] if values else None


def _limit(request: web.Request) -> int:
    refusal = f"limit must be between 1 and {MAX_PAGE_ROWS}"
    limit = _number(_single(request, "limit", refusal), refusal)
    if limit is None:
        return DEFAULT_LIMIT
    if not 1 <= limit <= MAX_PAGE_ROWS:
        raise BadRequest(refusal)
    return limit


def _sort(request: web.Request) -> Sort:
    refusal = "sort must be asc or desc"
    match _single(request, "sort", refusal):
        case "asc":
            return "asc"
        case None | "desc":
            return "desc"
        case _:
            raise BadRequest(refusal)


def _authors(request: web.Request) -> tuple[AuthorType, ...]:
    return tuple(sorted(authors_named(request.query.getall("author_type", []))))


def _task(request: web.Request) -> str | None:
    task_id = _single(request, "task_id", "task_id must not be empty")
    return None if task_id == EVERY_TASK else task_id


def _expected_revision(request: web.Request) -> int | None:
    refusal = "expected_revision must be a nonnegative integer"
    revision = _number(_single(request, "expected_revision", refusal), refusal)
    if revision is not None and revision > MAX_REVISION:
        raise BadRequest(refusal)
    return revision


def _number(text: str | None, refusal: str) -> int | None:
    if text is None:
        return None
    if not _DIGITS.fullmatch(text):
        raise BadRequest(refusal)
    return int(text)


def _session_id(request: web.Request) -> str:
    return named(request.match_info["session_id"], _NO_SESSION)


_BINDING = Parameter(BINDING_HEADER, "The `bindingToken` of a binding that has not expired.", "header", required=True)
_PAGING = (
    Parameter(
        "limit",
        "Rows of the page. It ends earlier, with more to come, at 8 MiB.",
        schema={"type": "integer", "minimum": 1, "maximum": MAX_PAGE_ROWS, "default": DEFAULT_LIMIT},
    ),
    Parameter(
        "sort", "Newest or oldest row first.", schema={"type": "string", "enum": ["asc", "desc"], "default": "desc"}
    ),
    Parameter(
        "task_id",
        f"The session's task: only its rows. Absent or `{EVERY_TASK}`: rows of every task of the session.",
        schema={"type": "string", "minLength": 1},
    ),
    Parameter("cursor", "That of the page before; everything else is asked for as it was there."),
    Parameter(
        "expected_revision",
        "Only at this revision; at another one the answer is 409.",
        schema={"type": "string", "pattern": "^[0-9]{1,19}$"},
    ),
)
_AUTHORS = Parameter(
    "author_type",
    "Only messages by these authors.",
    schema={"type": "string", "enum": ["user", "agent"]},
    repeated=True,
)
_SESSION = "/api/plugins/{plugin_id}/conversation/v2/task-sessions/{session_id}"

ROUTES = (
    Route(
        "GET",
        "/api/plugins/{plugin_id}/conversation/binding",
        issue_binding,
        "A binding of the caller to an active plugin that may read messages",
        "plugin conversations",
        (Answer(200, "A binding for at most ten minutes.", BindingBody), *concise_errors(404)),
        form="concise",
        orders_checks=True,
    ),
    Route(
        "GET",
        f"{_SESSION}/messages",
        list_messages,
        "A page of messages as plugins see them",
        "plugin conversations",
        (Answer(200, "A page, from one snapshot.", MessagesBody), *concise_errors(404, 409)),
        form="concise",
        orders_checks=True,
        parameters=(_BINDING, *_PAGING, _AUTHORS),
    ),
    Route(
        "GET",
        f"{_SESSION}/turns",
        list_turns,
        "A page of turns as plugins see them",
        "plugin conversations",
        (Answer(200, "A page, from one snapshot.", TurnsBody), *concise_errors(404, 409)),
        form="concise",
        orders_checks=True,
        parameters=(_BINDING, *_PAGING),
    ),
    Route(
        "GET",
        f"{_SESSION}/revision",
        read_revision,
        "Where the source of a conversation stands",
        "plugin conversations",
        (Answer(200, "The current revision.", RevisionBody), *concise_errors(404)),
        form="concise",
        orders_checks=True,
        parameters=(_BINDING,),
    ),
)
