"""First-party reads of messages and turns."""

import logging

import orjson
from aiohttp import web

from services.gateway.http.keys import HUB, IDENTITY, SOURCE
from services.gateway.http.queries import authors_named, text, word
from services.gateway.http.routes import REVISION, Answer, Parameter, Route, plain_errors, sparse
from services.gateway.metrics import count_page
from services.gateway.pages import Json, page_of_messages, position_named, rows_wanted, session_named, sort_named
from services.gateway.scopes.rows import core_message, core_turn
from shared.contracts.base import Contract
from shared.contracts.errors import RequestFailed
from shared.contracts.reads import MAX_PAGE_ROWS, After, MessagesAnswer, MessagesPage, TurnsPage
from shared.contracts.rows import AuthorType
from shared.contracts.wire import CoreMessage, CoreTurn

logger = logging.getLogger(__name__)

_HEADERS = {"Cache-Control": "no-store", "Content-Type": "application/json"}
_OPENING = b'{"messages":['

_PAGING = ("limit", "before", "after", "sort", "around")


async def list_messages(request: web.Request) -> web.StreamResponse:
    """A page, or, without any paging parameter, the whole session in the form of older clients."""
    if not any(name in request.query for name in _PAGING):
        return await _whole(request)
    page = _page(request)
    count_page(request.app[HUB].follows(page.session_id))
    answer = await request.app[SOURCE].messages(page)
    body = page_of_messages(answer)
    if text(request, "around"):
        body |= {"has_older": answer.has_older, "has_newer": answer.has_newer}
    return _json(body)


async def list_turns(request: web.Request) -> web.Response:
    """The session's turns, oldest first; pages of them when a limit is given."""
    after = text(request, "after")
    page = TurnsPage(
        identity=request[IDENTITY],
        session_id=session_named(request.match_info["session_id"]),
        task_id=text(request, "task_id"),
        limit=_limit(request, bool(after)),
        position=After(row=after) if after else None,
    )
    count_page(request.app[HUB].follows(page.session_id))
    answer = await request.app[SOURCE].turns(page)
    rows = [core_turn(row) for row in answer.rows]
    return _json(
        {
            "turns": rows,
            "total": len(rows),
            "has_more": answer.has_more,
            "epoch": answer.epoch,
            "revision": str(answer.revision),
        }
    )


async def _whole(request: web.Request) -> web.StreamResponse:
    """A session of any size, sent page by page: never more than one is held. Rows carry no `prompt_index`.

    A page that fails ends the connection, since the status has been sent: what came so far is no JSON, and no client
    can take it for the whole.
    """
    source = request.app[SOURCE]
    page = MessagesPage(
        identity=request[IDENTITY],
        session_id=session_named(request.match_info["session_id"]),
        task_id=text(request, "task_id"),
        authors=_authors(request),
        limit=None,
    )
    answer = await source.messages(page)
    if _is_last(answer):
        return web.Response(body=_OPENING + _rows(answer) + _closing(len(answer.rows)), headers=_HEADERS)
    response = web.StreamResponse(headers=_HEADERS)
    await response.prepare(request)
    await response.write(_OPENING)
    total = 0
    while True:
        if answer.rows:
            await response.write((b"," if total else b"") + _rows(answer))
            total += len(answer.rows)
        if _is_last(answer):
            await response.write(_closing(total))
            await response.write_eof()
            return response
        page = page.model_copy(update={"position": After(row=answer.end)})
        try:
            answer = await source.messages(page)
        except RequestFailed as failed:
            logger.warning("a list of messages broke off after %d rows: %s", total, failed.failure.code)
            if request.transport is not None:
                request.transport.abort()
            return response


def _is_last(answer: MessagesAnswer) -> bool:
    return not answer.has_more or answer.end is None


def _rows(answer: MessagesAnswer) -> bytes:
    """The rows' JSON with commas between them."""
    rows = [core_message(row) for row in answer.rows]
    for row in rows:
        row.pop("prompt_index", None)
    return orjson.dumps(rows)[1:-1]


def _closing(total: int) -> bytes:
    return b'],"total":%d,"has_more":false,"cursor":""}' % total


def _page(request: web.Request) -> MessagesPage:
    position = position_named(*(text(request, name) for name in ("before", "after", "around")))
    return MessagesPage(
        identity=request[IDENTITY],
        session_id=session_named(request.match_info["session_id"]),
        task_id=text(request, "task_id"),
        authors=_authors(request),
        sort=sort_named(word(request, "sort")),
        limit=_limit(request, position is not None),
        position=position,
    )


def _limit(request: web.Request, has_position: bool) -> int | None:
    """Anything but a positive number counts as none given."""
    given = word(request, "limit")
    digits = given.lstrip("0") if given.isascii() and given.isdigit() else ""
    return rows_wanted(int(digits[:9] or "0"), has_position)


def _authors(request: web.Request) -> tuple[AuthorType, ...]:
    return authors_named(map(str.strip, request.query.getall("author_type", [])))


def _json(body: Json) -> web.Response:
    return web.Response(body=orjson.dumps(body), headers=_HEADERS)


def _page_of(name: str, row: type[Contract], **more: Json) -> Json:
    """The schema of a page. Without a position and a limit it may be the whole, of which no revision is told."""
    return {
        "type": "object",
        "required": [name, "total", "has_more"],
        "properties": {
            name: {"type": "array", "items": {"$ref": f"#/$defs/{row.__name__}"}},
            "total": {"type": "integer", "minimum": 0, "description": "Rows of this answer."},
            "has_more": {"type": "boolean", "description": "There are further rows in the direction of paging."},
            "epoch": {"type": "string"},
            "revision": {**REVISION, "description": "Where the page was read."},
            **more,
        },
        "$defs": {row.__name__: sparse(row)},
    }


MESSAGES = _page_of(
    "messages",
    CoreMessage,
    cursor={"type": "string", "description": "Id of the last row of a page; empty where there is none."},
    has_older={"type": "boolean", "description": "Only of a page around a message."},
    has_newer={"type": "boolean", "description": "Only of a page around a message."},
)
_LIMIT: Json = {"anyOf": [{"type": "integer", "minimum": 1, "maximum": MAX_PAGE_ROWS}, {"type": "string"}]}
_SORT: Json = {"type": "string", "enum": ["asc", "desc", ""], "default": "asc"}
_AUTHOR: Json = {"type": "string", "enum": ["user", "agent"]}

_MESSAGE_PARAMETERS = (
    Parameter(
        "limit", "Rows of the page; more than 100 counts as 100, anything but a number as none given.", schema=_LIMIT
    ),
    Parameter("before", "Id of a message: the page holds strictly older ones. At most one of before, after, around."),
    Parameter("after", "Id of a message: the page holds strictly newer ones."),
    Parameter("around", "Id of a message: the page is centred on it."),
    Parameter("sort", "Oldest or newest first, in any case of letters.", schema=_SORT),
    Parameter("task_id", "Only messages of this task."),
    Parameter("author_type", "Only messages by these authors.", schema=_AUTHOR, repeated=True),
)
_PAGE_ANSWERS = (
    Answer(
        200,
        "A page; without any parameter of paging the whole session, whose rows have no `prompt_index`.",
        MESSAGES,
    ),
    *plain_errors(404),
)

ROUTES = (
    *(
        Route(
            "GET",
            f"/api/v1/{kind}/{{session_id}}/messages",
            list_messages,
            "Messages of a session",
            "conversations",
            _PAGE_ANSWERS,
            parameters=_MESSAGE_PARAMETERS,
        )
        for kind in ("task-sessions", "agent-sessions")
    ),
    Route(
        "GET",
        "/api/v1/task-sessions/{session_id}/turns",
        list_turns,
        "Turns of a session, oldest first",
        "conversations",
        (Answer(200, "A page, or all turns where no limit is given.", _page_of("turns", CoreTurn)), *plain_errors(404)),
        parameters=(
            Parameter(
                "limit",
                "Rows of the page; more than 100 counts as 100, anything but a number as none given.",
                schema=_LIMIT,
            ),
            Parameter("after", "Id of a turn: the page holds strictly newer ones."),
            Parameter("task_id", "Only turns of this task."),
        ),
    ),
)
