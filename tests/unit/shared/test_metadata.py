"""Stored metadata as contracts carry it."""

import pytest

from shared.contracts.rows import TurnRow
from shared.metadata import MAX_DEPTH, parse_metadata


def nested(depth: int, *, lists: bool = False) -> str:
    """An object with this many levels, the object itself included."""
    opening, closing = ("[", "]") if lists else ('{"a":', "}")
    return '{"a":' + opening * (depth - 1) + "1" + closing * (depth - 1) + "}"


@pytest.mark.parametrize("text", [None, "", b"", "null", "[]", "1", '"text"', "{", "{'a': 1}", b"\xff", "NaN"])
def test_what_is_not_an_object_is_none(text: str | bytes | None) -> None:
    assert parse_metadata(text) is None


@pytest.mark.parametrize("text", ["{}", '{"a": {"b": [1, null]}}', b'{"a": "\xc3\xa9"}'])
def test_an_object_is_itself(text: str | bytes) -> None:
    assert isinstance(parse_metadata(text), dict)


@pytest.mark.parametrize("lists", [False, True])
def test_nesting_is_kept_as_deep_as_every_parser_can_follow(lists: bool) -> None:
    kept = parse_metadata(nested(MAX_DEPTH, lists=lists))
    assert kept is not None
    row = TurnRow(
        id="t",
        session_id="s",
        task_id="k",
        started_at="2026-01-01T00:00:00Z",
        completed_at=None,
        execution_profile_id=None,
        route_generation=None,
        metadata=kept,
        created_at="2026-01-01T00:00:00Z",
        updated_at="2026-01-01T00:00:00Z",
    )
    assert TurnRow.model_validate_json(row.model_dump_json()) == row


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 250, 900])
@pytest.mark.parametrize("lists", [False, True])
def test_deeper_nesting_is_none(depth: int, lists: bool) -> None:
    assert parse_metadata(nested(depth, lists=lists)) is None
