"""Contracts: stable places, discreet errors, ids."""

import json

import pytest
from pydantic import TypeAdapter, ValidationError

from shared.contracts.base import Id
from shared.contracts.commands import COMMAND
from shared.contracts.errors import RETRYABLE, Failure, RequestFailed, problem
from shared.contracts.receipts import RECEIPT
from shared.contracts.streams import partition_of
from shared.contracts.wire import Subscribe

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


def test_what_may_be_asked_again() -> None:
    assert RequestFailed("behind", "x").failure.retryable
    assert not Failure(code="not_found", message="x").retryable
    assert {"reconciliation_required", "behind", "unavailable", "limit_exceeded", "upstream_failure"} == RETRYABLE
