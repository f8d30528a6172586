"""Times as text."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from shared.contracts.base import Timestamp
from shared.times import (
    EARLIEST_TEXT,
    LATEST_TEXT,
    format_microseconds,
    format_time,
    from_postgres,
    microseconds,
    parse_time,
)

TIMESTAMP: TypeAdapter[str] = TypeAdapter(Timestamp)
ZONES = st.builds(timezone, st.integers(-15 * 60, 15 * 60).map(lambda minutes: timedelta(minutes=minutes))) | st.just(
    UTC
)
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=ZONES)  # noqa: DTZ001 - bounds take no zone


@given(MOMENTS)
def test_what_is_written_reads_as_the_same_moment(moment: datetime) -> None:
    text = format_time(moment)
    assert TIMESTAMP.validate_python(text) == text
    assert parse_time(text) == moment
    assert not text.endswith(("0Z",)) or "." not in text


@given(MOMENTS, st.sampled_from([" ", "T"]))
def test_what_postgresql_prints_reads_as_the_same_moment(moment: datetime, between: str) -> None:
    assert from_postgres(moment.isoformat(between)) == format_time(moment)


@given(MOMENTS)
def test_without_a_zone_it_is_utc(moment: datetime) -> None:
    bare = moment.replace(tzinfo=None)
    assert from_postgres(str(bare)) == format_time(bare) == format_time(bare.replace(tzinfo=UTC))


@given(MOMENTS)
def test_a_number_is_written_as_the_moment_it_counts_to(moment: datetime) -> None:
    assert format_microseconds(microseconds(format_time(moment))) == format_time(moment)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (microseconds(EARLIEST_TEXT), EARLIEST_TEXT),
        (microseconds(EARLIEST_TEXT) - 1, EARLIEST_TEXT),
        (-(2**63), EARLIEST_TEXT),
        (microseconds(LATEST_TEXT), LATEST_TEXT),
        (microseconds(LATEST_TEXT) + 1, LATEST_TEXT),
        (2**63, LATEST_TEXT),
        (-1, "1969-12-31T23:59:59.999999Z"),
        (0, "1970-01-01T00:00:00Z"),
    ],
)
def test_a_number_beyond_all_years_is_written_as_the_nearest(number: int, text: str) -> None:
    assert TIMESTAMP.validate_python(text) == text
    assert format_microseconds(number) == text


@given(MOMENTS, MOMENTS)
def test_order_is_kept(first: datetime, second: datetime) -> None:
    assert (microseconds(format_time(first)) < microseconds(format_time(second))) == (first < second)


@pytest.mark.parametrize(
    ("printed", "text"),
    [
        ("2026-01-02 03:04:05+00", "2026-01-02T03:04:05Z"),
        ("2026-01-02 03:04:05.120000+00", "2026-01-02T03:04:05.12Z"),
        ("2026-01-02 03:04:05.000001+00", "2026-01-02T03:04:05.000001Z"),
        ("2026-01-02 03:04:05.000000", "2026-01-02T03:04:05Z"),
        ("2026-01-02 03:04:05+05:30", "2026-01-01T21:34:05Z"),
        ("2026-01-02 03:04:05-03", "2026-01-02T06:04:05Z"),
        ("2026-01-02 03:04:05.5-03:00", "2026-01-02T06:04:05.5Z"),
        ("2026-01-02 03:04:05+00:00", "2026-01-02T03:04:05Z"),
        ("infinity", LATEST_TEXT),
        ("-infinity", EARLIEST_TEXT),
        ("0044-03-15 12:00:00+00 BC", EARLIEST_TEXT),
        ("4713-11-24 00:00:00.123456 BC", EARLIEST_TEXT),
        ("10000-01-01 00:00:00", LATEST_TEXT),
        ("294276-12-31 23:59:59.999999+00", LATEST_TEXT),
        ("0001-01-01 00:00:00+05", EARLIEST_TEXT),
        ("9999-12-31 23:59:59-05:30", LATEST_TEXT),
        ("1840-01-02 03:04:05+00:17:30", "1840-01-02T02:46:35Z"),
    ],
)
def test_forms_that_postgresql_prints(printed: str, text: str) -> None:
    assert from_postgres(printed) == text


@pytest.mark.parametrize(
    "printed",
    [
        "",
        "Infinity",
        "2026-01-02",
        "2026-01-02 03:04",
        "44-03-15 12:00:00+00 BC",
        "10000-01-01",
        "10000-01-01 00:00:00 noon",
    ],
)
def test_what_cannot_be_expressed_is_an_error(printed: str) -> None:
    with pytest.raises(ValueError, match="timestamp"):
        from_postgres(printed)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-02T03:04:05Z", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2026-01-02t03:04:05z", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2026-01-02T03:04:05.1234567Z", datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=UTC)),
        ("2026-01-02T03:04:05+02:00", datetime(2026, 1, 2, 1, 4, 5, tzinfo=UTC)),
    ],
)
def test_forms_that_clients_send(text: str, moment: datetime) -> None:
    assert parse_time(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-01-02",
        "2026-01-02T03:04:05",
        "2026-01-02 03:04:05Z",
        "2026-13-02T03:04:05Z",
        "0001-01-01T00:00:00+05:00",
    ],
)
def test_what_clients_must_not_send(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - some of these texts are the standard library's
        parse_time(text)
