"""Times as plugins give them: RFC 3339 of any offset, as fine as they like; rows count microseconds (pure).

Both bounds of a list are rounded up to the next microsecond: a row at a whole microsecond is at or after a moment
exactly when it is at or after that microsecond, and before it exactly when it is before that one.
"""

import re
from datetime import date

_FORM = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))",
    re.ASCII,
)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097


def microsecond_from(text: str) -> int:
    """The first microsecond since 1970 that is not before this moment. Raises ValueError, whose text quotes nothing."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError("expected a time like 2026-01-31T12:00:00Z or 2026-01-31T12:00:00.5+01:00")
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    fraction, sign, zone_hour, zone_minute = match.groups()[6:]
    offset = 0
    if sign is not None:
        if int(zone_hour) > 23 or int(zone_minute) > 59:
            raise ValueError("the offset is out of range")
        offset = (int(zone_hour) * 60 + int(zone_minute)) * (-1 if sign == "-" else 1)
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError("the time of day is out of range")
    seconds = ((_day(year, month, day) * 24 + hour) * 60 + minute - offset) * 60 + second
    return seconds * 1_000_000 + _rounded_up(fraction or "")


def _day(year: int, month: int, day: int) -> int:
    """Days since 1970. The year 0 is one of RFC 3339 and not of Python."""
    cycles = 1 if year == 0 else 0
    try:
        ordinal = date(year + cycles * _CYCLE_YEARS, month, day).toordinal()
    except ValueError:
        raise ValueError("there is no such day") from None
    return ordinal - cycles * _CYCLE_DAYS - _EPOCH_DAY


def _rounded_up(fraction: str) -> int:
    return int(fraction[:6].ljust(6, "0")) + (1 if fraction[6:].strip("0") else 0)
