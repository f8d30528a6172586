"""What followers of the peer Zero showed of what was committed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.zero import Shown, shown


def test_a_change_counts_from_its_commit_until_it_is_first_shown() -> None:
    assert shown({1: 100, 2: 200}, [(1, 150), (1, 160), (2, 230)]) == Shown([(100, 150), (200, 230)], own=2)


def test_a_later_change_of_the_message_contains_the_ones_before() -> None:
    assert shown({1: 100, 2: 200, 3: 300}, [(1, 150), (3, 390)]) == Shown([(100, 150), (200, 390), (300, 390)], own=2)


def test_what_was_shown_of_earlier_writing_does_not_count() -> None:
    assert shown({5: 500}, [(4, 490), (5, 510)]) == Shown([(500, 510)], own=1)
    assert shown({}, [(4, 490)]) == Shown([], own=0)


@pytest.mark.parametrize("seen", [[], [(1, 150)]])
def test_followers_that_are_behind_have_no_delays_yet(seen: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match="last commit"):
        shown({1: 100, 2: 200}, seen)


@given(st.sets(st.integers(0, 99), min_size=1), st.sets(st.integers(0, 99)))
def test_every_commit_has_one_delay_and_none_is_negative(committed: set[int], skipped: set[int]) -> None:
    """Whatever was skipped but the last, of commits and sightings in the order of their numbers."""
    seen = [(number, 10 * number + 5) for number in sorted(committed) if number not in skipped - {max(committed)}]
    found = shown({number: 10 * number for number in committed}, seen)
    assert sorted(since for since, _ in found.moments) == [10 * number for number in sorted(committed)]
    assert all(since < until for since, until in found.moments)
    assert found.own == len(seen)
