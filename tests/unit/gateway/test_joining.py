"""Joining intervals (G5)."""

from itertools import pairwise

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.scopes.joining import CALM_CHANGES, WINDOW_SECONDS, Pace, above, join
from services.gateway.scopes.projection import Projected, Projection
from shared.contracts.receipts import MAX_OPERATIONS, MAX_RECEIPT_BYTES

Shown = dict[tuple[str, str], int]


def operation(row_id: str, value: int | None, entity: str = "message") -> Projected:
    """An upsert of a value, or a remove."""
    body = {"kind": "remove" if value is None else "upsert", "id": row_id, "value": value}
    return Projected("turn" if entity == "turn" else "message", row_id, orjson.dumps(body))


def step(base: int, *operations: Projected, to: int | None = None) -> Projection:
    """An interval."""
    return Projection(base, base + 1 if to is None else to, operations)


def reset(base: int) -> Projection:
    """An interval that cannot be told."""
    return Projection(base, base + 1, None)


OPERATIONS = st.lists(
    st.builds(
        operation,
        st.sampled_from("abc"),
        st.none() | st.integers(0, 9),
        st.sampled_from(["message", "turn"]),
    ),
    max_size=3,
    unique_by=lambda each: (each.entity, each.id),
)


@st.composite
def histories(draw: st.DrawFn) -> list[Projection]:
    """Intervals in order: adjacent ones, holes between some, resets among them."""
    changes, at = [], draw(st.integers(0, 5))
    for operations in draw(st.lists(st.none() | OPERATIONS, max_size=12)):
        at += draw(st.sampled_from([0, 0, 0, 2]))
        to = at + draw(st.integers(1, 3))
        changes.append(Projection(at, to, None if operations is None else tuple(operations)))
        at = to
    return changes


def applied(shown: Shown, change: Projection) -> Shown:
    """What a client shows after a change."""
    rows = dict(shown)
    for each in change.operations or ():
        value = orjson.loads(each.encoded)["value"]
        if value is None:
            rows.pop((each.entity, each.id), None)
        else:
            rows[each.entity, each.id] = value
    return rows


def followed(changes: list[Projection], revision: int) -> list[tuple[int, str, Shown]]:
    """What a client at a revision has seen of changes: after each reset or hole it starts anew with nothing."""
    rows: Shown = {}
    log: list[tuple[int, str, Shown]] = []
    for change in changes:
        if change.revision <= revision:
            continue
        if change.operations is None:
            rows = {}
            log.append((change.revision, "reset", rows))
        else:
            kind = "change" if change.base == revision else "gap"
            rows = applied(rows if kind == "change" else {}, change)
            log.append((change.revision, kind, rows))
        revision = change.revision
    return log


@given(changes=histories(), data=st.data())
def test_joined_frames_say_what_the_single_ones_say(changes: list[Projection], data: st.DataObject) -> None:
    """From every revision at which a scope can stand: the same gaps, resets and rows, in fewer frames."""
    start = data.draw(st.sampled_from([0, *(change.revision for change in changes)]))
    single = followed(changes, start)
    joined = followed(list(join(above(changes, start))), start)
    assert len(joined) <= len(single)
    places = {revision: (kind, rows) for revision, kind, rows in single}
    for revision, kind, rows in joined:
        assert places[revision][1] == rows
        assert kind == "reset" or places[revision][0] != "reset"
    breaks = [(kind, rows) for _, kind, rows in single if kind == "reset"]
    assert [(kind, rows) for _, kind, rows in joined if kind == "reset"] == breaks
    assert sum(kind == "gap" for _, kind, _ in joined) == sum(kind == "gap" for _, kind, _ in single)
    assert [revision for revision, _, _ in joined[-1:]] == [revision for revision, _, _ in single[-1:]]


def test_neighbours_become_one_with_each_rows_last_operation() -> None:
    [joined] = join([step(1, operation("a", 1), operation("b", 1)), step(2, operation("a", 2)), step(3)])
    assert (joined.base, joined.revision) == (1, 4)
    assert joined.operations == (operation("b", 1), operation("a", 2))


def test_a_remove_is_kept_even_if_the_row_came_and_went_in_between() -> None:
    [joined] = join([step(1, operation("a", 1)), step(2, operation("a", None))])
    assert joined.operations == (operation("a", None),)


def test_a_row_that_left_and_came_back_is_told() -> None:
    [joined] = join([step(1, operation("a", None)), step(2, operation("a", 7))])
    assert joined.operations == (operation("a", 7),)


def test_a_message_and_a_turn_of_one_id_are_two_rows() -> None:
    [joined] = join([step(1, operation("a", 1)), step(2, operation("a", 2, "turn"))])
    assert len(joined.operations or ()) == 2


def test_a_hole_is_never_joined_across() -> None:
    changes = [step(1), step(2), step(5)]
    assert [(each.base, each.revision) for each in join(changes)] == [(1, 3), (5, 6)]


def test_a_reset_is_never_joined() -> None:
    changes = [step(1), reset(2), step(3), step(4)]
    assert [(each.base, each.revision, each.operations is None) for each in join(changes)] == [
        (1, 2, False),
        (2, 3, True),
        (3, 5, False),
    ]


def test_no_more_rows_are_joined_than_a_frame_may_have() -> None:
    changes = [step(number, operation(str(number), 1)) for number in range(MAX_OPERATIONS + 1)]
    assert [len(each.operations or ()) for each in join(changes)] == [MAX_OPERATIONS, 1]
    same = [step(number, operation("a", number)) for number in range(MAX_OPERATIONS + 1)]
    assert len(list(join(same))) == 1


def test_no_more_bytes_are_joined_than_a_frame_may_have() -> None:
    half = b"x" * (MAX_RECEIPT_BYTES // 2)
    changes = [step(number, Projected("message", row, half)) for number, row in enumerate("abc")]
    assert [(each.base, each.revision) for each in join(changes)] == [(0, 2), (2, 3)]


def test_bytes_that_a_later_operation_replaces_do_not_count() -> None:
    """A large message that grows piece by piece is told once, whole, and not as often as it grew."""
    large = Projected("message", "a", b"x" * (MAX_RECEIPT_BYTES - 10))
    other = Projected("message", "b", b"x" * 11)
    changes = [*(step(number, large) for number in range(30)), step(30, other)]
    assert [(each.base, each.revision, each.size) for each in join(changes)] == [
        (0, 30, len(large.encoded)),
        (30, 31, 11),
    ]


@pytest.mark.parametrize(("revision", "left"), [(0, 3), (1, 3), (2, 2), (3, 1), (4, 0), (9, 0)])
def test_frames_are_cut_at_the_scopes_own_revision(revision: int, left: int) -> None:
    assert len(above([step(1), step(2), step(3)], revision)) == left


def test_calm_changes_leave_at_once() -> None:
    pace = Pace()
    for number in range(20):
        now = number * WINDOW_SECONDS / 3
        assert pace.due(now) <= now
        pace.left(now)


def test_a_burst_waits_for_the_window_and_never_longer() -> None:
    pace = Pace()
    for number in range(CALM_CHANGES):
        now = number / 1000
        assert pace.due(now) <= now
        pace.left(now)
    now = CALM_CHANGES / 1000
    assert now < pace.due(now) <= now + WINDOW_SECONDS


@given(st.lists(st.floats(0, 0.3), min_size=1, max_size=60))
def test_no_change_waits_longer_than_the_window(pauses: list[float]) -> None:
    pace, now, leaving = Pace(), 0.0, []
    for pause in pauses:
        now += pause
        due = max(now, pace.due(now))
        assert due <= now + WINDOW_SECONDS
        if due == now:
            pace.left(now)
            leaving.append(now)
    assert all(first <= second for first, second in pairwise(leaving))
