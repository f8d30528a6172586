"""What is asked and what is answered, as plain values."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Page:
    """Which part of a list. `limit` 0: as the host likes (50); at most 200 are given. `cursor`: `next_cursor` of the
    page before.
    """

    limit: int = 0
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class PageInfo:
    """Where a list goes on. `next_cursor` is empty at its end."""

    next_cursor: str
    has_more: bool


@dataclass(frozen=True, slots=True)
class MessageFilter:
    """Fields that are set narrow together, values of one field widen; an empty filter is everything.

    `since` (inclusive) and `until` (exclusive): with a zone, or as RFC 3339. At most 400 ids and types in all.
    """

    session_ids: tuple[str, ...] = ()
    task_ids: tuple[str, ...] = ()
    since: datetime | str | None = None
    until: datetime | str | None = None
    types: tuple[str, ...] = ()


class Message(NamedTuple):
    """A message. `author_type`: `user` or `agent`. `turn_id`, `task_id`: empty for none. `created_at`: in UTC, whole
    seconds. (A tuple, since a page has hundreds: a frozen data class takes three times as long to make.)
    """

    id: str
    session_id: str
    task_id: str
    turn_id: str
    author_type: str
    content: str
    type: str
    created_at: datetime
