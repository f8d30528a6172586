"""Bounds of lists: RFC 3339 as the microsecond that a row is compared with."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.rpc.moments import microsecond_from

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY = 86_400_000_000


@pytest.mark.parametrize(
    ("text", "microsecond"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01t00:00:00z", 0),
        ("1970-01-01T00:00:00.1Z", 100_000),
        ("1970-01-01T00:00:00.000001Z", 1),
        ("1970-01-01T00:00:00.000001000Z", 1),
        ("1970-01-01T00:00:00.000001001Z", 2),
        ("1970-01-01T00:00:00.0000000000000000001Z", 1),
        ("1969-12-31T23:59:59.999999999Z", 0),
        ("1970-01-01T05:30:00+05:30", 0),
        ("1969-12-31T16:00:00-08:00", 0),
        ("1970-01-01T00:00:00-00:00", 0),
        ("2024-02-29T00:00:00Z", 19_782 * DAY),
        ("0000-03-01T00:00:00Z", -719_468 * DAY),
        ("0000-02-29T00:00:00Z", -719_469 * DAY),
        ("0001-01-01T00:00:00+23:59", -719_162 * DAY - 86_340_000_000),
        ("9999-12-31T23:59:59.999999999-23:59", 2_932_897 * DAY + 86_340_000_000),
    ],
)
def test_a_moment(text: str, microsecond: int) -> None:
    assert microsecond_from(text) == microsecond


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "now", "2025-03-31", "2025-03-31T12:00Z", "2025-03-31T12:00:00", "2025-03-31 12:00:00Z"),
        *("2026-1-31T12:00:00Z", "2025-03-31T12:00:00.Z", "2025-03-31T12:00:00,5Z", "2025-03-31T12:00:00+0100"),
        *("2025-03-31T12:00:00+01", "2025-03-31T24:00:00Z", "2025-03-31T12:60:00Z", "2026-12-31T23:59:60Z"),
        *("2025-03-31T12:00:00+24:00", "2025-03-31T12:00:00+01:60", "2026-02-29T12:00:00Z", "2026-13-01T12:00:00Z"),
        *("2026-00-01T12:00:00Z", "0000-02-30T00:00:00Z", "12025-03-31T12:00:00Z", "-026-01-31T12:00:00Z"),
        *(
            "2025-03-31T12:00:00Z\n",
            " 2025-03-31T12:00:00Z",
            "\u0662\u066025-01-31T12:00:00Z",
            "2025-03-31T12:00:00Z\x00",
        ),
    ],
)
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected a time like|out of range|no such day") as refused:
        microsecond_from(text)
    assert not text.strip() or text.strip() not in str(refused.value)


@given(
    st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 12, 31)),  # noqa: DTZ001 - the zone is added
    st.integers(-1439, 1439),
)
def test_every_moment_that_python_can_write(moment: datetime, offset: int) -> None:
    zoned = moment.replace(tzinfo=timezone(timedelta(minutes=offset)))
    assert microsecond_from(zoned.isoformat()) == (zoned - EPOCH) // timedelta(microseconds=1)


@given(st.integers(-(10**12), 10**12), st.integers(1, 999))
def test_finer_than_a_microsecond_a_bound_lies_before_the_next_one(whole: int, nanoseconds: int) -> None:
    """So `since` leaves out the row at the whole microsecond, and `until` lets it in."""
    moment = EPOCH + timedelta(microseconds=whole)
    text = f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond:06}{nanoseconds:03}Z"
    assert microsecond_from(text) == whole + 1
