"""Contracts: stable places, discreet errors, ids."""

import json
from ipaddress import IPv4Address
from typing import Annotated, Literal

import pytest
from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from shared.contracts.base import NO_NUL, Contract, Id, NewId, Timestamp
from shared.contracts.commands import COMMAND
from shared.contracts.errors import RETRYABLE, Failure, RequestFailed, problem
from shared.contracts.reads import After, Before
from shared.contracts.receipts import RECEIPT
from shared.contracts.streams import partition_of
from shared.contracts.wire import Revision, Subscribe

SECRET = "planted-secret"


@pytest.mark.parametrize(
    ("session_id", "partitions", "partition"),
    [("", 8, 0), ("s", 8, 3), ("session-1", 8, 6), ("sitzung-ä", 8, 6), ("s", 1, 0), ("s", 3, 1)],
)
def test_a_session_keeps_its_partition(session_id: str, partitions: int, partition: int) -> None:
    """A stable number: the tracker and every gateway, of any version, must agree."""
    assert partition_of(session_id, partitions) == partition


@pytest.mark.parametrize("given", ["a", "a b", "ä", "x" * 255, "-", "../..", "%00"])
def test_ids_that_may_be(given: str) -> None:
    assert TypeAdapter(Id).validate_python(given) == given


@pytest.mark.parametrize("given", ["", "x" * 256, "\x00", "a\nb", "a\n", "\x7f", "\t", 7, None])
def test_ids_that_may_not_be(given: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Id).validate_python(given)


@pytest.mark.parametrize(
    ("contract", "given"),
    [
        (COMMAND, {"kind": "create_message", "message_id": SECRET * 90, "content": [SECRET]}),
        (COMMAND, {"kind": "append_message", "text": {SECRET: 1}, "offset": SECRET}),
        (COMMAND, {"kind": "update_message", "message_id": "m", "session_id": "s", "content": SECRET}),
        (TypeAdapter(Subscribe), {"session_id": {"x": SECRET}, "authors": [SECRET], "sort": SECRET}),
        (RECEIPT, {"kind": "change", "operations": [{"message": {"content": SECRET}}]}),
    ],
)
def test_an_error_names_the_field_and_not_what_was_sent(contract: TypeAdapter[object], given: object) -> None:
    with pytest.raises(ValidationError) as caught:
        contract.validate_python(given)
    assert SECRET not in problem(caught.value, "body")
    assert SECRET not in str(caught.value)
    with pytest.raises(ValidationError) as caught:
        contract.validate_json(json.dumps(given))
    assert SECRET not in str(caught.value)


def test_the_whole_is_named_where_no_field_is_to_blame() -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(Subscribe).validate_python([])
    assert problem(caught.value, "payload").startswith("payload: ")


class Held(Contract):
    """An object in another, with a pattern of its own."""

    nonce: str = Field(default="", pattern="^[0-9a-f]{4}$")


class Asked(Contract, extra="forbid"):
    """A contract with every kind of field that clients send."""

    id: Id
    text: Annotated[str, StringConstraints(min_length=1, max_length=3, pattern=NO_NUL)] = "x"
    number: Annotated[int, Field(ge=0, le=9)] = 0
    share: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] = 0.5
    flag: bool = False
    words: Annotated[tuple[str, ...], Field(min_length=1, max_length=2)] = ("x",)
    names: list[str] = []
    about: dict[str, str] = {}
    sort: Literal["asc", "desc"] = "asc"
    at: Timestamp | None = None
    revision: Revision = "0"
    new: NewId = "x"
    inner: Held | None = None
    place: Annotated[Before | After, Field(discriminator="at")] | None = None


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"id": ...}, "id: required"),
        ({"idd": SECRET}, "idd: no such field"),
        ({"id": 7}, "id: expected a string"),
        ({"id": ""}, "id: expected 1 or more characters"),
        ({"id": SECRET * 99}, "id: expected at most 255 characters"),
        ({"id": f"{SECRET}\n"}, "id: control characters are not allowed"),
        ({"id": f"{SECRET}\ud800"}, "id: expected a string without half of a surrogate pair"),
        ({"text": "\x00"}, "text: NUL characters are not allowed"),
        ({"number": SECRET}, "number: expected an integer"),
        ({"number": 1.5}, "number: expected an integer"),
        ({"number": -1}, "number: expected 0 or more"),
        ({"number": 10}, "number: expected 9 or less"),
        ({"share": SECRET}, "share: expected a number"),
        ({"share": float("inf")}, "share: expected a finite number"),
        ({"share": 0.0}, "share: expected more than 0.0"),
        ({"share": 1.0}, "share: expected less than 1.0"),
        ({"flag": SECRET}, "flag: expected true or false"),
        ({"words": SECRET}, "words: expected a list"),
        ({"words": ()}, "words: expected 1 or more entries"),
        ({"words": (SECRET,) * 3}, "words: expected at most 2 entries"),
        ({"words": ("x", 7)}, "words.1: expected a string"),
        ({"names": SECRET}, "names: expected a list"),
        ({"about": SECRET}, "about: expected an object"),
        ({"sort": SECRET}, "sort: expected 'asc' or 'desc'"),
        ({"at": SECRET}, "at: expected a time in UTC, such as 2026-01-31T12:00:00.123456Z"),
        ({"revision": SECRET}, "revision: expected a whole number in decimal digits"),
        ({"new": f" {SECRET}"}, "new: an id must not begin or end with white space"),
        ({"inner": SECRET}, "inner: expected an object"),
        ({"inner": {"nonce": SECRET}}, "inner.nonce: not of the form that is expected"),
        ({"place": {"row": SECRET}}, "place: expected an object with 'at'"),
        ({"place": {"at": SECRET}}, "place: expected 'at' to be one of 'before', 'after'"),
        ({"number": SECRET, "flag": 1}, "number: expected an integer; flag: expected true or false"),
    ],
)
def test_errors_are_sentences_for_people(given: dict[str, object], told: str) -> None:
    fields = {name: value for name, value in {"id": "x", **given}.items() if value is not ...}
    with pytest.raises(ValidationError) as caught:
        Asked.model_validate(fields, strict=True)
    assert problem(caught.value, "body") == told


def test_a_kind_of_error_without_a_sentence_tells_nothing() -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(IPv4Address).validate_python(SECRET)
    assert problem(caught.value, "address") == "address: cannot be used"


def test_a_field_is_told_by_the_name_that_the_sender_knows() -> None:
    with pytest.raises(ValidationError) as caught:
        Asked.model_validate({})
    assert problem(caught.value, "body", {"id": "name"}) == "name: required"


def test_what_may_be_asked_again() -> None:
    assert RequestFailed("behind", "x").failure.retryable
    assert not Failure(code="not_found", message="x").retryable
    assert {"reconciliation_required", "behind", "unavailable", "limit_exceeded", "upstream_failure"} == RETRYABLE
