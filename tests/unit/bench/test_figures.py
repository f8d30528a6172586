"""What the bench makes of what it measured."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.figures import Figure, Target, median, percentile, table

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50)


@given(VALUES, st.floats(0, 1))
def test_a_percentile_lies_among_the_values(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert min(values) <= found <= max(values) or found == pytest.approx(min(values))
    assert (percentile(values, 0), percentile(values, 1)) == (min(values), max(values))


@given(VALUES, st.floats(0, 1), st.floats(0, 1))
def test_percentiles_grow_with_their_share(values: list[float], one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert percentile(values, low) <= percentile(values, high) + 1e-6


def test_between_two_values_a_percentile_goes_by_distance() -> None:
    assert percentile([30, 10, 20, 40], 0.5) == 25
    assert percentile([0, 100], 0.99) == pytest.approx(99)
    assert median([3, 1, 2]) == 2
    with pytest.raises(ValueError, match="of nothing"):
        percentile([], 0.5)


@pytest.mark.parametrize(
    ("figure", "ratio", "met"),
    [
        (Figure("a", 3, "ms", 2, target=Target("at most", 1.5)), 1.5, True),
        (Figure("b", 3.1, "ms", 2, target=Target("at most", 1.5)), 1.55, False),
        (Figure("c", 80, "/s", 100, target=Target("at least", 0.8)), 0.8, True),
        (Figure("d", 79, "/s", 100, target=Target("at least", 0.8)), 0.79, False),
        (Figure("e", 0, "", target=Target("at most", 0)), None, True),
        (Figure("f", 99.9, "%", target=Target("at least", 100)), None, False),
        (Figure("g", 7, "ms"), None, None),
    ],
)
def test_a_target_bounds_the_ratio_or_else_the_value(figure: Figure, ratio: float | None, met: bool | None) -> None:
    assert figure.ratio == (None if ratio is None else pytest.approx(ratio))
    assert figure.met is met


def test_a_share_just_below_its_target_does_not_look_as_if_it_were_met() -> None:
    assert "99.99 %" in table([Figure("live", 99.99, "%", target=Target("at least", 100))])


def test_the_table_names_everything() -> None:
    lines = table(
        [Figure("first", 2.5, "ms", 2, "bare", Target("at most", 1.2)), Figure("second", 120_000.4, "/s")]
    ).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert [cell.strip() for cell in lines[2].split("|")[1:-1]] == [
        *("first", "2.50 ms", "2 ms", "bare", "1.25", "≤ 1.20", "missed")
    ]
    assert [cell.strip() for cell in lines[3].split("|")[1:-1]] == ["second", "120,000 /s", "", "", "", "", ""]
