"""Logged rows and the contracts: every document parses to itself; what cannot be expressed is refused without showing
it.
"""

from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.revision.tracker.pgoutput import UNCHANGED, Value, Values
from services.revision.tracker.rows import RowError, document
from shared.contracts.rows import Entity, MessageRow, TurnRow
from tests.unit.tracker import wire

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
MOMENTS = st.datetimes().map(lambda moment: f"{moment.isoformat(sep=' ')}+00".encode())


def columns(oid: int, row: Values, **other: Value) -> dict[str, Value]:
    return {**dict(zip(wire.COLUMNS[oid][2], row, strict=True)), **other}


@UNHURRIED
@given(content=TEXT, at=MOMENTS, author=st.sampled_from([b"user", b"agent"]), turn=st.none() | st.just(b"turn"))
def test_a_message_document_is_its_contract(content: str, at: bytes, author: bytes, turn: bytes | None) -> None:
    row = columns(
        wire.MESSAGES, wire.message("m"), content=content.encode(), created_at=at, author_type=author, turn_id=turn
    )
    made = document("message", row)
    assert MessageRow.model_validate(made, strict=True).model_dump() == made
    assert made["content"] == content


@UNHURRIED
@given(done=st.none() | MOMENTS, generation=st.none() | st.integers(0, 2**31), profile=st.none() | TEXT)
def test_a_turn_document_is_its_contract(done: bytes | None, generation: int | None, profile: str | None) -> None:
    row = columns(
        wire.TURNS,
        wire.turn("r"),
        completed_at=done,
        route_generation=None if generation is None else str(generation).encode(),
        execution_profile_id=None if profile is None else profile.encode(),
    )
    made = document("turn", row)
    assert TurnRow.model_validate(made, strict=True).model_dump() == made


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        (None, None),
        (b"", None),
        (b"null", None),
        (b"[1]", None),
        (b'"text"', None),
        (b"{", None),
        (b"{}", None),
        (b' {"a": {"b": [1, 2.5, true, null]}} ', '{"a":{"b":[1,2.5,true,null]}}'),
    ],
)
def test_metadata_is_an_object_or_nothing(stored: Value, shown: str | None) -> None:
    assert document("message", columns(wire.MESSAGES, wire.message("m"), metadata=stored))["metadata"] == shown


def test_a_message_without_an_ordinal_has_zero() -> None:
    assert document("message", columns(wire.MESSAGES, wire.message("m"), prompt_seq=None))["prompt_seq"] == 0


def test_what_may_be_null_in_earlier_tables_has_a_meaning() -> None:
    nulls = dict.fromkeys(("author_id", "requests_input", "updated_at", "content", "type", "prompt_seq"))
    found = document("message", columns(wire.MESSAGES, wire.message("m"), **nulls))
    assert (found["author_id"], found["requests_input"]) == ("", False)
    assert (found["content"], found["type"], found["prompt_seq"]) == ("", "message", 0)
    assert found["updated_at"] == found["created_at"]
    turn = document("turn", columns(wire.TURNS, wire.turn("r"), created_at=None, updated_at=None))
    assert turn["updated_at"] == turn["created_at"] == turn["started_at"]


@pytest.mark.parametrize(
    ("stored", "told"), [(b"t", True), (b"f", False), (b"1", True), (b"0", False), (b"-7", True), (None, False)]
)
def test_a_boolean_may_be_an_integer_in_earlier_tables(stored: Value, told: bool) -> None:
    row = columns(wire.MESSAGES, wire.message("m"), requests_input=stored)
    assert document("message", row)["requests_input"] is told


def test_whoever_is_no_user_is_an_agent() -> None:
    row = columns(wire.MESSAGES, wire.message("m"), author_type=b"system")
    assert document("message", row)["author_type"] == "agent"


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("content", UNCHANGED),
        ("author_type", None),
        ("requests_input", b"secret"),
        ("prompt_seq", b"1.secret"),
        ("created_at", b"once upon a secret"),
        ("created_at", None),
    ],
)
def test_what_cannot_be_expressed_names_the_column_alone(column: str, value: Value) -> None:
    with pytest.raises(RowError, match=f"column {column} ") as caught:
        document("message", columns(wire.MESSAGES, wire.message("m"), **{column: value}))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("entity", get_args(Entity))
def test_a_missing_column_is_named(entity: Entity) -> None:
    oid, row = (wire.MESSAGES, wire.message("m")) if entity == "message" else (wire.TURNS, wire.turn("r"))
    found = columns(oid, row)
    del found["updated_at"]
    with pytest.raises(RowError, match="column updated_at is missing"):
        document(entity, found)
