"""Pages of messages and turns over HTTP, as first-party clients read them."""

from collections.abc import Iterable
from typing import Annotated
from urllib.parse import quote

from pydantic import Field

from client.connection import Connection
from client.range import Body, Filter, row_of
from shared.contracts.base import Contract
from shared.contracts.wire import CoreMessage, CoreTurn, Revision

PAGE_ROWS = 100
"""Rows of a page, unless fewer are asked for: the most that the gateway gives."""


class MessagesPage(Contract):
    """A page of messages and the source position it was read at."""

    messages: tuple[CoreMessage, ...]
    has_more: bool
    epoch: Annotated[str, Field(min_length=1)]
    revision: Revision


class TurnsPage(Contract):
    """A page of turns and the source position it was read at."""

    turns: tuple[CoreTurn, ...]
    has_more: bool = False
    epoch: Annotated[str, Field(min_length=1)]
    revision: Revision


class PageRefused(Exception):
    """No page came. `status`: of the answer, 0 when there was none that can be used. `retry_after`: seconds after which
    the answer said to ask again.
    """

    def __init__(self, status: int, retry_after: float = 0.0) -> None:
        super().__init__(f"the gateway answered a page request with status {status}" if status else "no usable answer")
        self.status = status
        self.retry_after = retry_after


async def messages_page(
    connection: Connection, session_id: str, scope_filter: Filter, limit: int = PAGE_ROWS, before: str | None = None
) -> MessagesPage:
    """A page of messages, newest first; only those older than the row `before` when it is given. Raises
    `PageRefused`.
    """
    query = [("limit", str(limit)), ("sort", "desc"), *_task(scope_filter)]
    query += [("author_type", author) for author in scope_filter.authors]
    if before is not None:
        query.append(("before", before))
    status, body, retry_after = await connection.get(
        f"/api/v1/task-sessions/{quote(session_id, safe='')}/messages", query
    )
    if status != 200:
        raise PageRefused(status, retry_after)
    try:
        page = MessagesPage.model_validate(body)
        _at_real_times(page.messages)
    except ValueError as error:
        raise PageRefused(0) from error
    return page


async def turns_page(
    connection: Connection, session_id: str, scope_filter: Filter, limit: int = PAGE_ROWS, after: str | None = None
) -> TurnsPage:
    """A page of turns, oldest first; only those later than the row `after` when it is given. Raises `PageRefused`."""
    query = [("limit", str(limit)), *_task(scope_filter)]
    if after is not None:
        query.append(("after", after))
    status, body, retry_after = await connection.get(f"/api/v1/task-sessions/{quote(session_id, safe='')}/turns", query)
    if status != 200:
        raise PageRefused(status, retry_after)
    try:
        page = TurnsPage.model_validate(body)
        _at_real_times(page.turns)
    except ValueError as error:
        raise PageRefused(0) from error
    return page


def _at_real_times(rows: Iterable[Body]) -> None:
    """Raises ValueError for a row that has no place in the order."""
    for row in rows:
        row_of(row)


def _task(scope_filter: Filter) -> list[tuple[str, str]]:
    return [] if scope_filter.task_id is None else [("task_id", scope_filter.task_id)]
