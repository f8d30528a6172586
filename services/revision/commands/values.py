"""Values on their way into the source's columns, and how they are compared with what stands there."""

import orjson

from shared.contracts.errors import RequestFailed
from shared.metadata import collections_paused, require_metadata
from shared.times import format_microseconds, microseconds

_LATEST = microseconds("9999-01-01T00:00:00Z")


def moment(text: str | None) -> int | None:
    """The moment that a command names, in microseconds since 1970.

    Raises RequestFailed `invalid_query` for a day or hour that does not exist.
    """
    if text is None:
        return None
    try:
        return microseconds(text)
    except ValueError:
        raise RequestFailed("invalid_query", "a time names a day or hour that does not exist") from None


def named_moment(text: str | None) -> int | None:
    """The moment that a row is to have, like `moment`.

    Raises RequestFailed `invalid_query` also for one in the year 9999: user messages follow each other in time, so
    behind the last moment that can be told there could be none.
    """
    found = moment(text)
    if found is not None and found >= _LATEST:
        raise RequestFailed("invalid_query", "a time lies in the year 9999: give one before it")
    return found


def is_moment(stored: int, wanted: int) -> bool:
    """Whether a column holds that moment, or one that is written like it (`shared.times`)."""
    return stored == wanted or format_microseconds(stored) == format_microseconds(wanted)


def is_metadata(stored: str | None, wanted: str) -> bool:
    """Whether a column holds the same JSON value as this text, however it is spelled there."""
    if stored == wanted:
        return True
    try:
        held = require_metadata(stored or "")
    except ValueError:
        return False
    with collections_paused(len(wanted)):
        return bool(orjson.loads(held) == orjson.loads(wanted))


def refuse_nul(*texts: str | None) -> None:
    """Raises RequestFailed `invalid_query` for text that PostgreSQL cannot store."""
    if any(text is not None and "\x00" in text for text in texts):
        raise RequestFailed("invalid_query", "text holds a NUL character, which the source cannot store")
