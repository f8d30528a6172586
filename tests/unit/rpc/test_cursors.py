"""Cursors: every place comes back, and nothing else is one."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.contracts.reads import Keyset
from shared.host_rpc.cursors import cursor_of, place_of

INFINITIES = [946_684_800_000_000 - 2**63, 946_684_800_000_000 + 2**63 - 1]
TIMES = st.integers(-210_866_803_200_000_000, 9_224_318_015_999_999_999) | st.sampled_from(INFINITIES)
IDS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=300)


@given(TIMES, IDS)
def test_a_place_comes_back(time: int, row: str) -> None:
    cursor = cursor_of(Keyset(time=time, id=row))
    assert place_of(cursor) == Keyset(time=time, id=row)
    assert cursor.isascii()


@given(st.text(max_size=300) | st.binary(max_size=300).map(lambda data: base64.urlsafe_b64encode(data).decode()))
def test_whatever_comes_is_a_place_that_the_source_can_hold_or_the_beginning(cursor: str) -> None:
    place = place_of(cursor)
    assert place is None or place_of(cursor_of(place)) == place


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        ":",
        "1:\x00",
        "+1:m",
        " 1:m",
        "1.0:m",
        f"{10**19}:m",
        "9224318016000000000:m",
        f"-{2**63}:m",
    ],
)
def test_what_the_source_cannot_hold_is_no_place(text: str) -> None:
    assert place_of(base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")) is None
