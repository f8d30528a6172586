"""Decoding, byte by byte."""

import pytest

from services.revision.tracker.pgoutput import (
    UNCHANGED,
    Begin,
    Commit,
    Decoder,
    DecodingError,
    Delete,
    Insert,
    Relation,
    Truncate,
    Update,
)
from tests.unit.tracker import wire


@pytest.fixture
def decoder() -> Decoder:
    decoder = Decoder()
    for oid in wire.COLUMNS:
        decoder.decode(wire.relation(oid))
    return decoder


def test_a_transaction_opens_and_closes(decoder: Decoder) -> None:
    assert decoder.decode(wire.begin(xid=4_000_000_000)) == Begin(100, 1000, 4_000_000_000)
    assert decoder.decode(wire.commit()) == Commit(100, 110, 1000)


def test_rows_with_null_and_unchanged_values(decoder: Decoder) -> None:
    new = wire.message("m", content=UNCHANGED)
    decoded = decoder.decode(wire.update(wire.MESSAGES, new))
    assert isinstance(decoded, Update)
    assert (decoded.old, decoded.new) == (None, new)
    assert decoded.new[6] is UNCHANGED
    assert decoded.new[3] is None


@pytest.mark.parametrize("kind", [b"K", b"O"])
def test_old_rows_of_either_kind(decoder: Decoder, kind: bytes) -> None:
    key = wire.message_key("m")
    updated = decoder.decode(wire.update(wire.MESSAGES, wire.message("m"), key, kind))
    deleted = decoder.decode(wire.delete(wire.MESSAGES, key, kind))
    assert isinstance(updated, Update)
    assert isinstance(deleted, Delete)
    assert updated.old == deleted.old == key


def test_a_truncation_names_its_relations(decoder: Decoder) -> None:
    decoded = decoder.decode(wire.truncate(wire.MESSAGES, wire.TURNS))
    assert isinstance(decoded, Truncate)
    assert [relation.oid for relation in decoded.relations] == [wire.MESSAGES, wire.TURNS]


def test_a_relation_announced_again_holds_from_then_on(decoder: Decoder) -> None:
    announced = decoder.decode(wire.relation(wire.REVISIONS, ("session_id", "revision", "more")))
    assert isinstance(announced, Relation)
    row = (b"s", b"1", None)
    decoded = decoder.decode(wire.insert(wire.REVISIONS, row))
    assert decoded == Insert(announced, row)
    with pytest.raises(DecodingError, match="2 columns, announced were 3"):
        decoder.decode(wire.inserted("s", 1))


@pytest.mark.parametrize("kind", [b"Y", b"O", b"M"])
def test_messages_that_say_nothing_about_rows_are_passed_over(decoder: Decoder, kind: bytes) -> None:
    assert decoder.decode(kind + b"whatever") is None


MADE = {
    "begin": wire.begin(),
    "commit": wire.commit(),
    "relation": wire.relation(wire.TURNS),
    "insert": wire.insert(wire.MESSAGES, wire.message("m")),
    "update": wire.update(wire.MESSAGES, wire.message("m"), wire.message_key("m")),
    "delete": wire.delete(wire.MESSAGES, wire.message_key("m")),
    "truncate": wire.truncate(wire.MESSAGES),
}


@pytest.mark.parametrize("name", MADE)
def test_every_shorter_and_any_longer_message_is_refused(decoder: Decoder, name: str) -> None:
    message = MADE[name]
    for length in range(len(message)):
        with pytest.raises(DecodingError):
            decoder.decode(message[:length])
    with pytest.raises(DecodingError):
        decoder.decode(message + b"\0")


def test_an_unknown_message_is_named_by_its_byte(decoder: Decoder) -> None:
    with pytest.raises(DecodingError, match="0x53 of 3 bytes"):
        decoder.decode(b"S12")


def test_an_unknown_relation_is_refused() -> None:
    with pytest.raises(DecodingError, match="relation 1, which was not announced"):
        Decoder().decode(wire.insert(wire.MESSAGES, wire.message("m")))


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (wire.insert(wire.MESSAGES, wire.message("m")).replace(b"N", b"X", 1), "0x58"),
        (wire.insert(wire.REVISIONS, (b"s", b"1")).replace(b"t\0\0\0\x01s", b"b\0\0\0\x01s"), "unknown kind 0x62"),
    ],
)
def test_unknown_parts_are_named_and_contents_are_not(decoder: Decoder, message: bytes, said: str) -> None:
    with pytest.raises(DecodingError, match=said):
        decoder.decode(message)


def test_no_error_shows_what_a_row_holds(decoder: Decoder) -> None:
    message = wire.insert(wire.MESSAGES, wire.message("m", content=b"a secret of some length"))
    for length in range(len(message)):
        with pytest.raises(DecodingError) as caught:
            decoder.decode(message[:length])
        assert "secret" not in str(caught.value)
