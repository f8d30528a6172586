"""Metadata of messages and turns: text in the source, an object in every contract."""

from typing import Any

import orjson

MAX_DEPTH = 100
"""Deepest nesting that is kept. Parsers on the way to a client give up at about 200 levels, and one row must not make
its session unreadable.
"""


def parse_metadata(text: str | bytes | None) -> dict[str, Any] | None:
    """The object that stored metadata holds.

    `None` for empty text, `null`, whatever is not a JSON object, and an object nested deeper than `MAX_DEPTH`.
    """
    if not text:
        return None
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) and _fits(found) else None


def _fits(value: Any) -> bool:
    """Whether the value is nested no deeper than allowed. Level by level: recursion has limits of its own."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return True
    return False
