"""A receipt seen through a scope: the operations applied to filter(before) give filter(after)."""

from itertools import pairwise

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.scopes.joining import join
from services.gateway.scopes.projection import Projection, View, Viewing, project
from services.gateway.scopes.rows import core_message, core_turn, plugin_message, plugin_turn
from shared.contracts.plugin_wire import PluginOperation
from shared.contracts.receipts import MAX_OPERATIONS, Operation
from shared.contracts.rows import AuthorType, Entity, MessageRow, TurnRow
from tests.unit.gateway.receipts import change, message, remove, selection, turn, upsert

Row = MessageRow | TurnRow
Rows = dict[tuple[Entity, str], Row]

IDS = ("1", "2", "3")
CONTENTS = ("a", "b", "a<kandev-system>x</kandev-system>", "a<kandev-system>x")
SESSIONS = st.sampled_from(["s", "z"])
TASKS = st.sampled_from(["t", "u", None])
AUTHORS: st.SearchStrategy[AuthorType] = st.sampled_from(["user", "agent"])


@st.composite
def sources(draw: st.DrawFn) -> Rows:
    """Some messages and turns, each in one of two sessions."""
    rows: Rows = {}
    for row_id in IDS:
        if draw(st.booleans()):
            content = draw(st.sampled_from(CONTENTS))
            rows["message", row_id] = message(row_id, draw(SESSIONS), draw(TASKS), draw(AUTHORS), content)
        if draw(st.booleans()):
            rows["turn", row_id] = turn(row_id, draw(SESSIONS), draw(TASKS))
    return rows


VIEWS = st.builds(
    View,
    session_id=st.just("s"),
    task_id=st.sampled_from([None, "t", "u"]),
    authors=st.frozensets(AUTHORS),
    rows=st.sampled_from(["core", "plugin"]),
)


def operations_between(before: Rows, after: Rows) -> list[Operation]:
    """What session `s`'s receipt names: every row that was or is in it and changed."""
    found = []
    for key in {**before, **after}:
        old, new = before.get(key), after.get(key)
        was, now = old is not None and old.session_id == "s", new is not None and new.session_id == "s"
        if new is not None and now and new != old:
            found.append(upsert(new, old))
        elif old is not None and was and not now:
            found.append(remove(old))
    return found


def shown_row(row: Row, view: View) -> object:
    """A row as this kind of consumer may see it."""
    if view.rows == "core":
        shown = core_message(row) if isinstance(row, MessageRow) else core_turn(row)
    else:
        shown = plugin_message(row) if isinstance(row, MessageRow) else plugin_turn(row)
    return orjson.loads(orjson.dumps(shown))


def seen(rows: Rows, view: View) -> dict[tuple[Entity, str], object]:
    """filter(rows), as the consumer sees them."""
    return {key: shown_row(row, view) for key, row in rows.items() if view.selects(key[0], selection(row))}


def applied(shown: dict[tuple[Entity, str], object], *projections: Projection) -> dict[tuple[Entity, str], object]:
    """What a client shows after the operations."""
    rows = dict(shown)
    for projection in projections:
        assert projection.operations is not None
        for projected in projection.operations:
            operation = orjson.loads(projected.encoded)
            key = operation["entity"], operation["id"]
            if operation["kind"] == "upsert":
                rows[key] = operation[operation["entity"]]
            else:
                rows.pop(key, None)
    return rows


@given(before=sources(), after=sources(), view=VIEWS)
def test_the_operations_lead_from_what_was_shown_to_what_is(before: Rows, after: Rows, view: View) -> None:
    projection = project(change(4, *operations_between(before, after)), view)
    assert applied(seen(before, view), projection) == seen(after, view)
    assert (projection.base, projection.revision) == (4, 5)


@given(states=st.lists(sources(), min_size=2, max_size=6), view=VIEWS)
def test_joined_intervals_lead_from_the_first_to_the_last(states: list[Rows], view: View) -> None:
    """Whatever rows did in between: entered, left, came back, went to another session."""
    receipts = [
        change(number, *operations_between(before, after)) for number, (before, after) in enumerate(pairwise(states))
    ]
    joined = list(join([project(receipt, view) for receipt in receipts]))
    assert applied(seen(states[0], view), *joined) == seen(states[-1], view)
    assert (joined[0].base, joined[-1].revision) == (0, len(receipts))


@given(before=sources(), after=sources(), view=VIEWS)
def test_nothing_is_told_of_rows_that_never_concerned_the_view(before: Rows, after: Rows, view: View) -> None:
    projection = project(change(4, *operations_between(before, after)), view)
    told = {(each.entity, each.id) for each in projection.operations or ()}
    assert told <= seen(before, view).keys() | seen(after, view).keys()


def test_everything_filtered_out_is_coverage() -> None:
    projection = project(change(1, upsert(message("m", author="agent"))), View("s", authors=frozenset({"user"})))
    assert projection.operations == ()


def test_turns_have_no_author() -> None:
    projection = project(change(1, upsert(turn("x"))), View("s", authors=frozenset({"user"})))
    assert [each.id for each in projection.operations or ()] == ["x"]


@pytest.mark.parametrize(
    "operation",
    [
        Operation(kind="upsert", entity="message", id="m"),
        Operation(kind="upsert", entity="turn", id="m"),
        Operation(kind="upsert", entity="turn", id="m", message=message("m")),
        Operation(kind="upsert", entity="message", id="m", turn=turn("m")),
    ],
)
def test_an_upsert_without_its_row_is_a_reset(operation: Operation) -> None:
    assert project(change(1, operation), View("s")).operations is None


def test_an_incomplete_receipt_is_a_reset() -> None:
    assert project(change(1, complete=False), View("s")).operations is None


def test_a_row_that_is_gone_and_whose_past_is_unknown_may_have_been_shown() -> None:
    gone = Operation(kind="remove", entity="message", id="m")
    assert [each.id for each in project(change(1, gone), View("s", task_id="t")).operations or ()] == ["m"]


def test_more_operations_than_a_frame_may_have_are_a_reset_where_they_concern_the_scope() -> None:
    rows = [upsert(message(str(number), author="agent")) for number in range(MAX_OPERATIONS + 1)]
    assert project(change(1, *rows), View("s")).operations is None
    assert project(change(1, *rows), View("s", authors=frozenset({"user"}))).operations == ()
    assert len(project(change(1, *rows[1:]), View("s")).operations or ()) == MAX_OPERATIONS


def test_a_row_that_grows_too_large_beside_its_hidden_text_is_a_reset() -> None:
    content = "<kandev-system>x</kandev-system>" + "y" * 600_000
    assert project(change(1, upsert(message("m", content=content))), View("s")).operations is None


def test_hidden_text_leaves_only_beside_the_stripped_text() -> None:
    content = "<kandev-system>for the agent</kandev-system> for people"
    [projected] = project(change(1, upsert(message("m", content=content))), View("s")).operations or ()
    row = orjson.loads(projected.encoded)["message"]
    assert row["content"] == "for people"
    assert row["raw_content"] == content
    assert row["metadata"] == {"has_hidden_prompts": True}


def test_a_plugin_is_told_of_a_row_whose_shown_text_stays_the_same() -> None:
    """What grows is a block that is still open: nothing of it is shown, and the row was changed all the same."""
    before = message("m", content="shown <kandev-system>h")
    after = message("m", content="shown <kandev-system>hidden")
    [projected] = project(change(1, upsert(after, before)), View("s", rows="plugin")).operations or ()
    assert b"hid" not in projected.encoded
    assert orjson.loads(projected.encoded)["message"]["content"] == plugin_message(before)["content"]


def test_an_operation_of_a_plugin_is_as_its_contract_says() -> None:
    """No field of a first-party row is among them."""
    receipt = change(1, upsert(message("m", content="x")), upsert(turn("u")), remove(message("n")))
    for projected in project(receipt, View("s", rows="plugin")).operations or ():
        told = orjson.loads(projected.encoded)
        assert PluginOperation.model_validate(told).model_dump(exclude_unset=True) == told


def test_first_party_consumers_and_plugins_never_share_a_view() -> None:
    assert View("s") != View("s", rows="plugin")
    assert View("s", rows="plugin") == View("s", rows="plugin")


def test_a_row_is_encoded_once_for_all_views_that_show_it_alike() -> None:
    viewing = Viewing(change(1, upsert(message("m", content="text"))))
    views = (View("s"), View("s", authors=frozenset({"user", "agent"})), View("s", rows="plugin"))
    [first], [alike], [other] = (viewing.through(view).operations or () for view in views)
    assert first.encoded is alike.encoded
    assert first.encoded != other.encoded
