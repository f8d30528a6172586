"""Values on their way into the source's columns, and how they are compared with what stands there."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from shared.contracts.errors import RequestFailed
from shared.times import parse_time


def moment(text: str | None) -> datetime | None:
    """The moment that a command names. Raises RequestFailed `invalid_query` for a day or hour that does not exist."""
    if text is None:
        return None
    try:
        return parse_time(text)
    except ValueError:
        raise RequestFailed("invalid_query", "a time names a day or hour that does not exist") from None


def is_moment(stored: datetime, wanted: datetime) -> bool:
    """Whether a column holds that moment. A column without a zone holds UTC."""
    return (stored.replace(tzinfo=UTC) if stored.tzinfo is None else stored) == wanted


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
