"""Values on their way into the source's columns, and how they are compared with what stands there."""

import json
from collections.abc import Mapping
from typing import Any

from shared.contracts.errors import RequestFailed
from shared.times import format_microseconds, microseconds


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


def is_moment(stored: int, wanted: int) -> bool:
    """Whether a column holds that moment, or one that is written like it (`shared.times`)."""
    return stored == wanted or format_microseconds(stored) == format_microseconds(wanted)


# Any: metadata is whatever JSON its writer chose.
def metadata_text(metadata: Mapping[str, Any]) -> str:
    """Metadata as its column holds it: JSON text. Raises RequestFailed `invalid_query` for what JSON cannot say."""
    try:
        text = json.dumps(metadata, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        text.encode()
    except ValueError:
        raise RequestFailed(
            "invalid_query", "metadata holds a number or a character that JSON has no form for"
        ) from None
    return text


def is_metadata(stored: str | None, wanted: Mapping[str, Any]) -> bool:
    """Whether a column holds the same JSON value, however it is spelled there."""
    try:
        return bool(json.loads(stored or "null") == wanted)
    except ValueError:
        return False


def refuse_nul(*texts: str | None) -> None:
    """Raises RequestFailed `invalid_query` for text that PostgreSQL cannot store."""
    if any(text is not None and "\x00" in text for text in texts):
        raise RequestFailed("invalid_query", "text holds a NUL character, which the source cannot store")
