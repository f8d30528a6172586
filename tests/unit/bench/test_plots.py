"""The plots of the bench."""

from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.plots import Line, Panel, axis, drawn, short

SVG = "{http://www.w3.org/2000/svg}"
VALUES = st.lists(st.floats(1e-3, 1e9), min_size=1, max_size=20)


@given(VALUES)
def test_every_value_and_mark_lies_on_its_axis_in_order(values: list[float]) -> None:
    found = axis(values, 10, 110)
    places = [found.place(value) for value in sorted([*values, *found.marks])]
    assert places == sorted(places)
    assert places[0] >= 10 - 1e-6
    assert places[-1] <= 110 + 1e-6
    assert found.marks[0] <= min(values)
    assert found.marks[-1] >= max(values) * (1 - 1e-9)
    assert 2 <= len(found.marks) <= 14


def test_wide_ranges_are_shown_by_ratio_and_others_from_zero() -> None:
    wide, narrow = axis([100, 10_000], 0, 1), axis([30, 100], 0, 1)
    assert wide.place(1_000) == pytest.approx(0.5)
    assert list(wide.marks) == [100, 1_000, 10_000]
    assert narrow.place(0) == 0
    assert narrow.place(50) == pytest.approx(0.5)


def test_zero_can_be_shown() -> None:
    assert axis([0, 0], 0, 1).place(0) == 0
    assert axis([0, 5_000], 0, 1).place(0) == 0


def test_a_drawing_is_svg_with_every_point_and_name() -> None:
    lines = [Line("p50 < p99", [(1, 2), (2, 3), (3, 5)]), Line("other", [(1, 1), (3, 1)])]
    root = ET.fromstring(drawn([Panel("A & B", "x", "y", lines), Panel("C", "x", "y", lines[:1])]))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert len(list(root.iter(f"{SVG}circle"))) == 8
    assert len(list(root.iter(f"{SVG}polyline"))) == 3
    assert {"A & B", "C", "p50 < p99", "other"} <= set(texts)


@pytest.mark.parametrize(("value", "shown"), [(0, "0"), (0.25, "0.25"), (999, "999"), (1500, "1.5k"), (2e6, "2M")])
def test_numbers_are_shown_short(value: float, shown: str) -> None:
    assert short(value) == shown
