"""Times as all services write them: UTC, RFC 3339, microseconds at most, no trailing zeros in the fraction."""

import re
from datetime import UTC, datetime, timedelta

_POSTGRES = re.compile(
    r"^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?(?:([+-])(\d\d)(?::?(\d\d))?(?::?\d\d)?)?$"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def format_time(moment: datetime) -> str:
    """RFC 3339 text of a moment. A moment without a zone is UTC, as the source stores it."""
    utc = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    text = utc.isoformat()[:26] if utc.microsecond else utc.isoformat()[:19]
    return (text.rstrip("0") if utc.microsecond else text) + "Z"


def parse_time(text: str) -> datetime:
    """The moment that RFC 3339 text names, of any zone. Finer digits than microseconds are cut. Raises ValueError for
    anything else.
    """
    if "T" not in text.upper():
        raise ValueError("a time is written as in 2026-01-31T12:00:00Z")
    moment = datetime.fromisoformat(text.upper())
    if moment.tzinfo is None:
        raise ValueError("a time needs a zone, as in 2026-01-31T12:00:00Z")
    return moment.astimezone(UTC)


def from_postgres(text: str) -> str:
    """RFC 3339 text of PostgreSQL's ISO output, as logical decoding carries it. Without a zone it is UTC. Raises
    ValueError for others.
    """
    match = _POSTGRES.match(text)
    if match is None:
        raise ValueError("not a timestamp in PostgreSQL's ISO style")
    day, clock, fraction, sign, _, _ = match.groups()
    if sign is not None and text[-3:] != "+00":
        return format_time(datetime.fromisoformat(text))
    fraction = (fraction or "").rstrip("0")
    return f"{day}T{clock}.{fraction}Z" if fraction else f"{day}T{clock}Z"


def microseconds(text: str) -> int:
    """Microseconds since 1970 of RFC 3339 text: the number by which rows are ordered."""
    return (parse_time(text) - _EPOCH) // _MICROSECOND
