"""Ranges, parts and the lines that show them."""

import pytest

from client.range import Cursor, Filter, Loaded, Part, behind, changes_between, joined, message_part, row_of, turn_part
from tests.unit.client.source_model import message, turn

EVERYTHING = Filter()


def key(second: int, row_id: str) -> tuple[int, str]:
    return row_of(message(row_id, second)).key


def test_a_page_of_messages_proves_its_oldest_row_and_what_is_above() -> None:
    part = message_part(
        (message("m3", 3), message("m2", 2)), has_more=True, revision=7, cursor=None, scope_filter=EVERYTHING
    )
    assert (part.low, part.high, part.revision) == (key(2, "m2"), None, 7)
    assert [part.contains(key(*at)) for at in ((1, "z"), (2, "a"), (2, "m2"), (9, "m9"))] == [False, False, True, True]


def test_the_last_page_of_messages_proves_everything_below_its_cursor() -> None:
    cursor = Cursor("m2", key(2, "m2"))
    part = message_part((message("m1", 1),), has_more=False, revision=7, cursor=cursor, scope_filter=EVERYTHING)
    assert [part.contains(key(*at)) for at in ((0, "a"), (1, "z"), (2, "m2"))] == [True, True, False]


def test_rows_that_the_filter_leaves_out_still_prove_their_place() -> None:
    rows = message("m3", 3), message("m2", 2, author="agent")
    part = message_part(rows, has_more=True, revision=7, cursor=None, scope_filter=Filter(authors=("user",)))
    assert (list(part.rows), part.low) == (["m3"], key(2, "m2"))


def test_pages_of_turns_meet_without_a_row_between_them() -> None:
    first = turn_part((turn("t1", 1), turn("t2", 2)), has_more=True, revision=7, cursor=None, scope_filter=EVERYTHING)
    cursor = Cursor("t2", row_of(turn("t2", 2)).key)
    last = turn_part((turn("t3", 3),), has_more=False, revision=7, cursor=cursor, scope_filter=EVERYTHING)
    assert first.high == last.low == behind(cursor.key)
    assert first.contains(cursor.key)
    assert not last.contains(cursor.key)
    assert not first.contains(key(2, "t20"))
    assert last.contains(key(2, "t20"))


def test_parts_are_joined_at_one_revision_only() -> None:
    with pytest.raises(ValueError, match="one revision"):
        joined((Part("message", 1), Part("message", 2)))
    with pytest.raises(ValueError, match="one revision"):
        joined(())


def test_changes_between_states_name_what_went_and_what_came() -> None:
    def loaded(*rows: str) -> Loaded:
        part = Part("message", 1, rows={name: row_of(message(name, 1)) for name in rows})
        return Loaded("e", 1, part, Part("turn", 1))

    changes = changes_between(loaded("a", "b"), loaded("b", "c"))
    assert [(change.id, change.row is not None) for change in changes] == [("a", False), ("c", True)]
    assert changes_between(loaded("a"), loaded("a")) == ()
