"""Metadata of messages and turns: text in the source, an object in every contract."""

from typing import Any

import orjson

MAX_DEPTH = 100
"""Deepest nesting that is kept. Parsers on the way to a client give up at about 200 levels, and one row must not make
its session unreadable.
"""


def within_depth(metadata: dict[str, Any]) -> dict[str, Any]:
    """The metadata itself. Raises ValueError when it is nested deeper than `MAX_DEPTH`."""
    if not _fits(metadata):
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels, the most that is kept")
    return metadata


def parse_metadata(text: str | bytes | None) -> dict[str, Any] | None:
    """The object that stored metadata holds.

    `None` for empty text, `null`, whatever is not a JSON object, and an object nested deeper than `MAX_DEPTH`. Pages
    and receipts both come through here, so that they show the same of text that a writer of plain SQL chose freely:

    - an integer below -2^63 or above 2^64 - 1 becomes the nearest double;
    - text that names a number beyond every double (`1e999`) or half of a surrogate pair (`\\ud800`) is not taken for
      JSON, and the whole is `None`.
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
