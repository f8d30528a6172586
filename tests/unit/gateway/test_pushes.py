"""Session pushes: which events a receipt makes, and that each is told once."""

import orjson
import pytest

from services.gateway.scopes.projection import View
from services.gateway.scopes.pushes import PushScope, PushView, events_of
from services.gateway.scopes.session import SessionScopes
from shared.contracts.identity import LOCAL_USER
from shared.contracts.receipts import ChangeReceipt, Operation
from tests.unit.gateway.memory_source import NotingConsumer
from tests.unit.gateway.receipts import NOON, change, message, remove, turn, upsert

COMPLETED = turn("u").model_copy(update={"completed_at": NOON})


def events(receipt: ChangeReceipt) -> list[tuple[str, str]]:
    """Action and row of each event."""
    told = [orjson.loads(event) for event in events_of(receipt)]
    return [(each["action"], each["payload"].get("message_id") or each["payload"]["id"]) for each in told]


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (upsert(message("m")), ["session.message.added"]),
        (upsert(message("m"), message("m")), ["session.message.updated"]),
        (upsert(message("m"), message("m", task_id="u")), ["session.message.updated"]),
        (upsert(message("m"), message("m", session_id="other")), ["session.message.added"]),
        (remove(message("m")), ["session.message.deleted"]),
        (upsert(turn("u")), ["session.turn.started"]),
        (upsert(turn("u"), turn("u")), []),
        (upsert(COMPLETED, turn("u")), ["session.turn.completed"]),
        (upsert(COMPLETED), ["session.turn.started", "session.turn.completed"]),
        (upsert(COMPLETED, turn("u", session_id="other")), ["session.turn.started", "session.turn.completed"]),
        (remove(turn("u")), []),
    ],
)
def test_what_an_operation_makes(operation: Operation, expected: list[str]) -> None:
    assert [action for action, _ in events(change(1, operation))] == expected


def test_the_order_of_a_receipt_is_kept() -> None:
    receipt = change(1, upsert(message("b")), upsert(COMPLETED, turn("u")), upsert(message("a")))
    assert [row for _, row in events(receipt)] == ["b", "u", "a"]


def test_a_receipt_that_does_not_name_its_rows_makes_none() -> None:
    assert events(change(1, upsert(message("m")), complete=False)) == []
    assert events(change(1, Operation(kind="upsert", entity="message", id="m"))) == []


def scope(consumer: NotingConsumer) -> PushScope:
    """A push scope that is open at revision 4."""
    opened = PushScope(id="p", view=PushView("s"), identity=LOCAL_USER, consumer=consumer)
    opened.open_at("e", 4, 0.0)
    return opened


async def test_each_change_above_the_opening_is_told_once() -> None:
    """Copies of a second leader, and what the opening read shows already, are not told."""
    consumer = NotingConsumer()
    session = SessionScopes("s")
    session.add(scope(consumer))
    for base in (3, 4, 4, 5, 4):
        session.change(change(base, upsert(message(f"m{base}"))), 100.0)
    told = [frame["payload"]["message_id"] for frame in consumer.sent]
    assert told == ["m4", "m5"]


def test_nothing_but_events_is_told() -> None:
    consumer = NotingConsumer()
    opened = scope(consumer)
    opened.tell_check(9)
    opened.tell_reset()
    opened.end()
    assert consumer.sent == []


def test_a_view_of_pushes_is_no_view_of_frames() -> None:
    assert PushView("s") != View("s")
    assert len({PushView("s"), View("s"), PushView("s")}) == 2
