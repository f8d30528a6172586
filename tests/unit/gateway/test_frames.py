"""Frames against the contract that clients were told."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.scopes import frames
from services.gateway.scopes.frames import Frame
from services.gateway.scopes.projection import View, project
from services.gateway.websocket.framing import framed, text_of
from shared.contracts.wire import Changed
from tests.unit.gateway.receipts import change, message, remove, turn, upsert

WORDS = st.text(st.characters(exclude_categories=["Cs"]))


def read(frame: Frame, scope_id: str) -> Changed:
    """The payload, as the contract reads it, and as nothing but the contract would write it."""
    sent = frame.for_scope(orjson.dumps(scope_id))
    envelope = orjson.loads(sent)
    assert envelope.keys() == {"type", "action", "payload"}
    assert (envelope["type"], envelope["action"]) == ("notification", "session.conversation.changed")
    payload = Changed.model_validate(envelope["payload"])
    assert payload.model_dump(mode="json", exclude_none=True) == envelope["payload"]
    assert sent == orjson.dumps(envelope), "compact: nothing between the tokens"
    return payload


@given(scope_id=WORDS, session_id=WORDS, epoch=WORDS, content=WORDS)
def test_a_change(scope_id: str, session_id: str, epoch: str, content: str) -> None:
    row = message("m", content=content)
    receipt = change(4, upsert(row), upsert(turn("x")), remove(message("gone")), to=9)
    told = read(frames.change(session_id, epoch, project(receipt, View("s"))), scope_id)
    assert (told.scope_id, told.session_id, told.epoch) == (scope_id, session_id, epoch)
    assert (told.base_revision, told.revision) == ("4", "9")
    assert [(each.kind, each.entity, each.id) for each in told.operations] == [
        ("upsert", "message", "m"),
        ("upsert", "turn", "x"),
        ("remove", "message", "gone"),
    ]
    assert (told.check, told.reset, told.terminal) == (None, None, None)


@pytest.mark.parametrize("size", [0, 60_000, 70_000])
def test_a_frame_for_one_scope_after_another(size: int) -> None:
    """The ids are of any length, and the WebSocket frame is that of the same text."""
    row = message("m", content="x" * size)
    frame = frames.change("s", "e", project(change(4, upsert(row)), View("s")))
    for scope_id in (b'"a"', b'"b"', b'"longer"', b'"c"', b'"%b"' % (b"x" * 9000), b'"d"'):
        assert frame.framed_for_scope(scope_id) == framed(frame.for_scope(scope_id))
        assert orjson.loads(text_of(frame.framed_for_scope(scope_id)))["payload"]["scope_id"] == scope_id.decode()[1:-1]


def test_coverage_advances_the_revision_and_says_nothing() -> None:
    told = read(frames.change("s", "e", project(change(4), View("s"))), "scope")
    assert (told.base_revision, told.revision, told.operations) == ("4", "5", ())


def test_a_check_names_one_revision_twice() -> None:
    told = read(frames.check("s", "e", 2**63 - 1), "scope")
    assert told.check is True
    assert told.base_revision == told.revision == str(2**63 - 1)
    assert told.operations == ()


@pytest.mark.parametrize(
    "frame",
    [
        frames.reset("s", "e"),
        frames.terminal("s", "e"),
        frames.change("s", "e", project(change(4, complete=False), View("s"))),
    ],
)
def test_resets_and_endings_carry_no_revision(frame: Frame) -> None:
    """G7: a client that knows neither field must not take them for coverage."""
    told = read(frame, "scope")
    assert (told.base_revision, told.revision, told.operations) == ("", "", ())
    assert [told.reset, told.terminal].count(True) == 1


def test_the_removal_of_a_session() -> None:
    assert orjson.loads(frames.session_removed('s"')) == {
        "type": "notification",
        "action": "session.removed",
        "payload": {"session_id": 's"'},
    }
