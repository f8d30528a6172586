"""Pages of messages as first-party clients ask for them and see them, over HTTP and on the socket (pure)."""

from typing import Any

from services.gateway.ids import named
from services.gateway.scopes.rows import core_message
from shared.contracts.errors import RequestFailed
from shared.contracts.reads import MAX_PAGE_ROWS, After, Around, Before, MessagesAnswer, Sort

Json = dict[str, Any]  # Any: rows hold metadata, which is whatever JSON its writer chose

CURSOR_LIMIT = 10
"""Rows of a page that names a cursor and no usable limit."""


def session_named(text: str) -> str:
    """The id of a session. Raises RequestFailed `invalid_query` for none, and `not_found` for what cannot be one."""
    if not text.strip():
        raise RequestFailed("invalid_query", "task session id is required")
    return named(text, "task session not found")


def sort_named(word: str) -> Sort:
    """The direction that a word names, the oldest row first where there is none. Raises RequestFailed."""
    match word.strip().lower():
        case "" | "asc":
            return "asc"
        case "desc":
            return "desc"
        case _:
            raise RequestFailed("invalid_query", "sort must be asc or desc")


def position_named(before: str | None, after: str | None, around: str | None = None) -> Before | After | Around | None:
    """Where a page lies. Raises RequestFailed for more than one place."""
    if before and after:
        raise RequestFailed("invalid_query", "only one of before or after can be set")
    if around and (before or after):
        raise RequestFailed("invalid_query", "only one of before, after or around can be set")
    if before:
        return Before(row=before)
    if after:
        return After(row=after)
    return Around(row=around) if around else None


def rows_wanted(limit: int, has_position: bool) -> int | None:
    """How many rows a page may have: more than the most is the most, and none is a few beside a cursor, and otherwise
    as many as there are.
    """
    if limit <= 0:
        return CURSOR_LIMIT if has_position else None
    return min(limit, MAX_PAGE_ROWS)


def page_of_messages(answer: MessagesAnswer) -> Json:
    """The page as clients see it, `prompt_index` included. `cursor`: the id of its last row."""
    rows = [core_message(row) for row in answer.rows]
    return {
        "messages": rows,
        "total": len(rows),
        "has_more": answer.has_more,
        "cursor": answer.rows[-1].id if answer.rows else "",
        "epoch": answer.epoch,
        "revision": str(answer.revision),
    }
