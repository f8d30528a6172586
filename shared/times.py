"""Times as all services write them: UTC, RFC 3339, microseconds at most, no trailing zeros in the fraction.

PostgreSQL holds times that RFC 3339 has no form for: years before 1 and after 9999, and both infinities. Such a time is
written as the nearest one that has a form, `EARLIEST_TEXT` or `LATEST_TEXT`, by every reader of rows: a page and a
receipt show the same row, and no row makes its session unreadable. Their order among one another is the source's.
"""

import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

EARLIEST_TEXT = "0001-01-01T00:00:00Z"
LATEST_TEXT = "9999-12-31T23:59:59.999999Z"

_POSTGRES = re.compile(
    r"^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?(?:([+-])(\d\d)(?::?(\d\d))?(?::?\d\d)?)?$"
)
_BEYOND = re.compile(
    r"^(?:(?P<early>-infinity|\d{4,6}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\S* BC)"
    r"|infinity|\d{5,6}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:[+-][\d:]+)?)$"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = _EPOCH.toordinal()
_MICROSECOND = timedelta(microseconds=1)
_DAY = 86_400_000_000
_EARLIEST = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LATEST = (datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC) - _EPOCH) // _MICROSECOND


def format_time(moment: datetime) -> str:
    """RFC 3339 text of a moment. A moment without a zone is UTC, as the source stores it."""
    utc = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    text = utc.isoformat()[:26] if utc.microsecond else utc.isoformat()[:19]
    return (text.rstrip("0") if utc.microsecond else text) + "Z"


def format_microseconds(moment: int) -> str:
    """RFC 3339 text of a number of microseconds since 1970, of any size."""
    if not _EARLIEST <= moment <= _LATEST:
        return EARLIEST_TEXT if moment < _EARLIEST else LATEST_TEXT
    day, left = divmod(moment, _DAY)
    seconds, fraction = divmod(left, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    text = f"{_day(day)}T{hour:02}:{minute:02}:{second:02}"
    return text + f".{fraction:06}".rstrip("0") + "Z" if fraction else text + "Z"


def parse_time(text: str) -> datetime:
    """The moment that RFC 3339 text names, of any zone. Finer digits than microseconds are cut. Raises ValueError for
    anything else.
    """
    if "T" not in text.upper():
        raise ValueError("a time is written as in 2026-01-31T12:00:00Z")
    moment = datetime.fromisoformat(text.upper())
    if moment.tzinfo is None:
        raise ValueError("a time needs a zone, as in 2026-01-31T12:00:00Z")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("a time lies between the years 1 and 9999 of UTC") from None


def from_postgres(text: str) -> str:
    """RFC 3339 text of PostgreSQL's ISO output, as logical decoding carries it. Without a zone it is UTC. Raises
    ValueError for others.
    """
    match = _POSTGRES.match(text)
    if match is None:
        return _from_beyond(text)
    day, clock, fraction, sign, _, _ = match.groups()
    if sign is not None and text[-3:] != "+00":
        try:
            return format_time(datetime.fromisoformat(text))
        except OverflowError:
            return EARLIEST_TEXT if day < "5000" else LATEST_TEXT
    fraction = (fraction or "").rstrip("0")
    return f"{day}T{clock}.{fraction}Z" if fraction else f"{day}T{clock}Z"


def microseconds(text: str) -> int:
    """Microseconds since 1970 of RFC 3339 text: the number by which rows are ordered."""
    return (parse_time(text) - _EPOCH) // _MICROSECOND


def _from_beyond(text: str) -> str:
    match = _BEYOND.match(text)
    if match is None:
        raise ValueError("not a timestamp in PostgreSQL's ISO style")
    return LATEST_TEXT if match["early"] is None else EARLIEST_TEXT


@lru_cache(maxsize=4096)  # rows of a page are of few days
def _day(number: int) -> str:
    return date.fromordinal(_EPOCH_DAY + number).isoformat()
