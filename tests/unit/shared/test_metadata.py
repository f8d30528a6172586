"""Metadata as contracts carry it: what is kept of what writers send, and what is shown of what is stored."""

import gc
from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from shared.contracts.commands import CreateSession
from shared.metadata import (
    MAX_BYTES,
    MAX_DEPTH,
    collections_paused,
    metadata_text,
    require_metadata,
    shown_metadata,
    text_under,
    with_hidden_prompts,
    within_depth,
)

NO_OBJECTS = [
    *("null", "[]", "1", '"text"', "{", "{}{}", "{'a': 1}"),
    *("NaN", '{"a":NaN}', '{"a":1e999}', r'{"a":"\ud800"}'),
]

FULL = '{"a":"' + "x" * (MAX_BYTES - 8) + '"}'
"""Metadata of as many bytes as are kept."""


def nested(depth: int, *, lists: bool = False) -> str:
    """An object with this many levels, the object itself included."""
    opening, closing = ("[", "]") if lists else ('{"a":', "}")
    return '{"a":' + opening * (depth - 1) + "1" + closing * (depth - 1) + "}"


@pytest.mark.parametrize("text", [None, "", "{}", " { } ", *NO_OBJECTS])
def test_what_is_no_object_or_an_empty_one_is_not_shown(text: str | None) -> None:
    assert shown_metadata(text) is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"a":{"b":[1,null]}}', '{"a":{"b":[1,null]}}'),
        (' { "a" :\n"\\u00e9\\u0041" } ', '{"a":"éA"}'),
        ('{"a":123456789012345678901234567890}', '{"a":1.2345678901234568e29}'),
        ('{"a":1,"a":2}', '{"a":2}'),
    ],
)
def test_an_object_is_told_in_its_usual_spelling(text: str, shown: str) -> None:
    assert orjson.loads(shown_metadata(text) or "") == orjson.loads(shown)
    assert " " not in (shown_metadata(text) or "")
    assert require_metadata(text) == shown_metadata(text)


@pytest.mark.parametrize("lists", [False, True])
def test_nesting_is_kept_as_deep_as_every_parser_can_follow(lists: bool) -> None:
    text = nested(MAX_DEPTH, lists=lists)
    assert shown_metadata(text) == require_metadata(text) == metadata_text(orjson.loads(text)) == text
    assert within_depth(orjson.loads(text)) == orjson.loads(text)


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 250, 300, 900])
@pytest.mark.parametrize("lists", [False, True])
def test_deeper_nesting_is_refused_and_not_shown(depth: int, lists: bool) -> None:
    text = nested(depth, lists=lists)
    assert shown_metadata(text) is None
    for refusing in (require_metadata, lambda given: metadata_text(orjson.loads(given)), _within_depth):
        with pytest.raises(ValueError, match=f"nested deeper than {MAX_DEPTH} levels"):
            refusing(text)


def _within_depth(text: str) -> dict[str, Any]:
    return within_depth(orjson.loads(text))


def test_brackets_in_text_are_no_nesting() -> None:
    text = orjson.dumps({"a": "[{" * MAX_DEPTH}).decode()
    assert shown_metadata(text) == text


def test_as_many_bytes_are_kept_as_a_frame_may_have() -> None:
    assert shown_metadata(FULL) == require_metadata(FULL) == metadata_text(orjson.loads(FULL)) == FULL


@pytest.mark.parametrize("text", [FULL.replace("x", "xx", 1), FULL.replace("x", "é", 1), FULL + " "])
def test_more_bytes_are_refused_by_their_limit_and_not_shown(text: str) -> None:
    assert shown_metadata(text) is None
    with pytest.raises(ValueError, match=f"larger than {MAX_BYTES} bytes"):
        require_metadata(text)


def test_a_writers_object_is_bounded_like_its_text() -> None:
    with pytest.raises(ValueError, match=f"larger than {MAX_BYTES} bytes"):
        metadata_text({"a": "é" * MAX_BYTES})


@pytest.mark.parametrize("text", NO_OBJECTS)
def test_a_command_carries_one_object_or_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="not one JSON object"):
        CreateSession(session_id="s", task_id="t", metadata=text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, {"has_hidden_prompts": True}),
        ('{"a":1}', {"a": 1, "has_hidden_prompts": True}),
        ('{"has_hidden_prompts":false,"a":1}', {"a": 1, "has_hidden_prompts": True}),
        ('{"a":{"has_hidden_prompts":false}}', {"a": {"has_hidden_prompts": False}, "has_hidden_prompts": True}),
        ('{"a":"has_hidden_prompts"}', {"a": "has_hidden_prompts", "has_hidden_prompts": True}),
    ],
)
def test_hidden_prompts_are_told_beside_what_is_there_and_once(text: str | None, told: dict[str, Any]) -> None:
    found = with_hidden_prompts(text)
    assert orjson.loads(found) == told
    assert found.count('"has_hidden_prompts":true') == 1


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, None),
        ('{"task":"t"}', "t"),
        (r'{"\u0074ask":"t"}', "t"),
        ('{"a":{"task":"t"}}', None),
        ('{"a":"task"}', None),
        ('{"task":""}', None),
        ('{"task":7}', None),
        ('{"task":["t"]}', None),
    ],
)
def test_text_is_found_under_a_key_of_the_object_itself(text: str | None, found: str | None) -> None:
    assert text_under("task", shown_metadata(text)) == found


@pytest.mark.parametrize("enabled", [True, False])
def test_a_pause_of_collections_leaves_them_as_they_were(enabled: bool) -> None:
    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        with collections_paused(MAX_BYTES):
            assert not gc.isenabled()
        assert gc.isenabled() is enabled
        with collections_paused(1):
            assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()
