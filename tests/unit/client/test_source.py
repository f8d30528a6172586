"""How what is shown is compared with the source."""

import pytest

from client.range import Filter, Row, row_of
from client.source import Differing, SourceRows, difference
from tests.unit.client.source_model import message, turn

ROWS = tuple(row_of(body) for body in (message("m1", 1), message("m2", 2, author="agent"), turn("t1", 1)))


def test_equal_rows_have_no_difference() -> None:
    assert not difference(ROWS, reversed(ROWS))


def test_what_is_missing_extra_or_differs_is_told_apart() -> None:
    changed = row_of(message("m2", 2, "new", author="agent"))
    extra = row_of(turn("t2", 2))
    found = difference(ROWS, (changed, ROWS[2], extra))
    assert found
    assert found.missing == (ROWS[0],)
    assert found.extra == (extra,)
    assert found.differing == (Differing("message", "m2", "content", "", "new"),)


def test_a_message_and_a_turn_of_one_id_are_two_rows() -> None:
    assert difference((row_of(message("x", 1)),), (row_of(turn("x", 1)),)).missing == (row_of(message("x", 1)),)


@pytest.mark.parametrize(
    ("scope_filter", "low", "shown"),
    [
        (Filter(), None, ROWS),
        (Filter(authors=("user",)), None, (ROWS[0], ROWS[2])),
        (Filter(task_id="other"), None, ()),
        (Filter(), ROWS[1].key, ROWS[1:]),
    ],
)
def test_a_scope_is_owed_its_filter_within_its_range(
    scope_filter: Filter, low: tuple[int, str] | None, shown: tuple[Row, ...]
) -> None:
    assert SourceRows("epoch", 1, ROWS).within(scope_filter, low) == shown
