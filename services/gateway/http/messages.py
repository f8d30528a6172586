"""First-party reads of messages and turns."""

from collections.abc import Sequence

import orjson
from aiohttp import web
from pydantic import TypeAdapter, ValidationError

from services.gateway.http.errors import BadRequest
from services.gateway.http.keys import IDENTITY, SOURCE
from services.gateway.scopes.rows import Json, core_message, core_turn
from shared.contracts.base import Id
from shared.contracts.errors import RequestFailed
from shared.contracts.reads import MAX_PAGE_ROWS, After, Around, Before, MessagesPage, Sort, TurnsPage
from shared.contracts.rows import AuthorType

CURSOR_LIMIT = 10
"""Rows of a page that names a cursor and no usable limit."""

_ID: TypeAdapter[str] = TypeAdapter(Id)

_PAGING = ("limit", "before", "after", "sort", "around")


async def list_messages(request: web.Request) -> web.Response:
    """A page, or, without any paging parameter, the whole session in the form of older clients."""
    if not any(name in request.query for name in _PAGING):
        return await _whole(request)
    answer = await request.app[SOURCE].messages(_page(request))
    rows = [core_message(row) for row in answer.rows]
    body: Json = {
        "messages": rows,
        "total": len(rows),
        "has_more": answer.has_more,
        "cursor": answer.rows[-1].id if answer.rows else "",
        "epoch": answer.epoch,
        "revision": str(answer.revision),
    }
    if "around" in request.query:
        body |= {"has_older": answer.has_older, "has_newer": answer.has_newer}
    return _json(body)


async def list_turns(request: web.Request) -> web.Response:
    """The session's turns, oldest first; pages of them when a limit is given."""
    after = _text(request, "after")
    page = TurnsPage(
        identity=request[IDENTITY],
        session_id=_session_id(request),
        task_id=_text(request, "task_id"),
        limit=_limit(request, bool(after)),
        position=After(row=after) if after else None,
    )
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


async def _whole(request: web.Request) -> web.Response:
    """Put together from pages, so that no single answer holds a session of any size. Rows carry no `prompt_index`."""
    rows: list[Json] = []
    page = MessagesPage(
        identity=request[IDENTITY],
        session_id=_session_id(request),
        task_id=_text(request, "task_id"),
        authors=_authors(request),
        limit=None,
    )
    while True:
        answer = await request.app[SOURCE].messages(page)
        for row in answer.rows:
            message = core_message(row)
            message.pop("prompt_index", None)
            rows.append(message)
        if not answer.has_more or answer.end is None:
            return _json({"messages": rows, "total": len(rows), "has_more": False, "cursor": ""})
        page = page.model_copy(update={"position": After(row=answer.end)})


def _page(request: web.Request) -> MessagesPage:
    before, after, around = (_text(request, name) for name in ("before", "after", "around"))
    if before and after:
        raise BadRequest("only one of before or after can be set")
    if around and (before or after):
        raise BadRequest("only one of before, after or around can be set")
    position: Before | After | Around | None = None
    if before:
        position = Before(row=before)
    elif after:
        position = After(row=after)
    elif around:
        position = Around(row=around)
    return MessagesPage(
        identity=request[IDENTITY],
        session_id=_session_id(request),
        task_id=_text(request, "task_id"),
        authors=_authors(request),
        sort=_sort(request),
        limit=_limit(request, position is not None),
        position=position,
    )


def _session_id(request: web.Request) -> str:
    session_id = request.match_info["session_id"]
    try:
        return _ID.validate_python(session_id)
    except ValidationError:
        raise RequestFailed("not_found", "task session not found") from None


def _text(request: web.Request, name: str) -> str | None:
    return request.query.get(name, "").strip() or None


def _sort(request: web.Request) -> Sort:
    match request.query.get("sort", "").strip().lower():
        case "" | "asc":
            return "asc"
        case "desc":
            return "desc"
        case _:
            raise BadRequest("sort must be asc or desc")


def _limit(request: web.Request, has_position: bool) -> int | None:
    """Anything but a positive number counts as none given; more than the most is the most."""
    text = request.query.get("limit", "").strip()
    digits = text.lstrip("0") if text.isascii() and text.isdigit() else ""
    if not digits:
        return CURSOR_LIMIT if has_position else None
    return min(int(digits[:9]), MAX_PAGE_ROWS)


def _authors(request: web.Request) -> tuple[AuthorType, ...]:
    authors: list[AuthorType] = []
    for text in request.query.getall("author_type", []):
        match text.strip():
            case "user":
                authors.append("user")
            case "agent":
                authors.append("agent")
            case _:
                raise BadRequest("unsupported author_type")
    if len(set(authors)) != len(authors):
        raise BadRequest("duplicate author_type")
    return tuple(authors)


def _json(body: Json | Sequence[Json]) -> web.Response:
    return web.Response(body=orjson.dumps(body), content_type="application/json", headers={"Cache-Control": "no-store"})
