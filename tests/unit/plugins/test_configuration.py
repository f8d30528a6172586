"""Settings that fit a schema, settings that none can be, and defaults."""

from typing import Any

import pytest

from services.gateway.plugins.configuration import (
    LARGEST,
    MOST_PROBLEMS,
    MOST_VALUES,
    check_config,
    unkeepable,
    with_defaults,
)


def described(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def test_everything_that_does_not_fit_is_told_without_any_value() -> None:
    schema = {
        **described(
            size={"type": "integer", "enum": [2, 3]},
            name={"type": "string", "maxLength": 3},
            key={"type": ["string", "null"], "secret": True},
            items={"items": {"type": "number", "minimum": 2}},
        ),
        "required": ["size", "other", "more"],
        "additionalProperties": False,
    }
    config = {
        "size": "hunter2", "name": "hunter2", "key": ["hunter2"], "items": [5, 1], "hunter2": 1
    }  # fmt: skip
    assert set(check_config(schema, config)) == {
        "size must be a whole number",
        "size must be one of 2, 3",
        "name must have at most 3 characters",
        "key must be text or null",
        "items[1] must be at least 2",
        "the value must have other, more",
        "the value has a key that is not described",
    }


@pytest.mark.parametrize(
    ("rule", "value", "says"),
    [
        ({"const": 1}, 2, "must be 1"),
        ({"const": 1}, True, "must be 1"),
        ({"maximum": 1}, 2, "must be at most 1"),
        ({"exclusiveMinimum": 1}, 1, "must be more than 1"),
        ({"exclusiveMaximum": 1}, 1, "must be less than 1"),
        ({"multipleOf": 2}, 3, "must be a multiple of 2"),
        ({"minLength": 2}, "a", "must have at least 2 characters"),
        ({"minItems": 1}, [], "must have at least 1 items"),
        ({"maxItems": 1}, [1, 2], "must have at most 1 items"),
        ({"minProperties": 1}, {}, "must have at least 1 keys"),
        ({"maxProperties": 1}, {"a": 1, "b": 2}, "must have at most 1 keys"),
        ({"uniqueItems": True}, [1, 1], "must not hold an item twice"),
        ({"enum": [True, "a"]}, 1, 'must be one of true, "a"'),
        ({"type": "boolean"}, 1, "must be true or false"),
    ],
)
def test_each_rule_has_a_sentence(rule: dict[str, Any], value: Any, says: str) -> None:
    assert check_config(described(a=rule), {"a": value}) == (f"a {says}",)


def test_no_more_is_told_than_somebody_reads() -> None:
    told = check_config(described(a={"items": {"type": "string"}}), {"a": [0] * 1000})
    assert len(told) == MOST_PROBLEMS


def test_places_are_quoted_and_cut() -> None:
    (told,) = check_config({"type": "object", "additionalProperties": {"type": "string"}}, {"a b" + "x" * 5000: 1})
    assert told.startswith('"a bxxx')
    assert len(told) < 400


@pytest.mark.parametrize("value", [2, 3])
def test_integer_enums(value: int) -> None:
    schema = described(n={"type": "integer", "enum": [2, 3]})
    assert check_config(schema, {"n": value}) == ()
    assert check_config(schema, {"n": True}) != ()


def test_patterns_and_formats_are_left_to_the_form() -> None:
    schema = described(a={"pattern": "(a+)+$", "format": "regex"})
    assert check_config(schema, {"a": "a" * 50_000 + "!("}) == ()


@pytest.mark.parametrize("schema", [None, described()])
def test_settings_that_could_not_be_kept_are_refused(schema: dict[str, Any] | None) -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"a": deep}
    never_json = "must be JSON of at most 100 levels, with integers of at most 64 bits"
    for config, says in (
        (deep, never_json),
        ({"a": "\ud800"}, never_json),
        ({"a": 2**64}, never_json),
        ({"a": "x" * LARGEST}, "must not be larger than 65,536 bytes"),
        ({"a": [0] * MOST_VALUES}, "must not hold more than 2,000 values"),
        ({"a\0": 1}, "must not contain a NUL character"),
        ({"a": ["\\\0"]}, "must not contain a NUL character"),
        ({"a": "\0"}, "must not contain a NUL character"),
    ):
        assert unkeepable(config) == says
        assert check_config(schema, config) == (says,)
    assert check_config(schema, {"a": "\\u0000", "b": "\\\\u0000", "c": 1}) == ()


def test_defaults_stand_where_nothing_is_chosen() -> None:
    schema = described(
        a={"type": "integer", "default": 2},
        b={**described(c={"default": "c"}, d={}), "default": {"d": 1}},
        e=described(f={"default": 1}),
        g={"items": described(h={"default": 1})},
        i=True,
        j={"default": None},
    )
    assert with_defaults(schema, {}) == {"a": 2, "b": {"d": 1, "c": "c"}}
    given = {"a": 3, "b": {}, "e": {}, "g": [{}], "z": 1}
    assert with_defaults(schema, given) == {"a": 3, "b": {"c": "c"}, "e": {"f": 1}, "g": [{}], "z": 1}
    assert given["b"] == {}
    assert with_defaults(schema, {"b": 1})["b"] == 1
    assert with_defaults(None, {"a": 1}) == {"a": 1}


def test_a_required_setting_with_a_default_need_not_be_given() -> None:
    schema = {**described(a={"type": "integer", "default": 2}, b={}), "required": ["a", "b"]}
    assert check_config(schema, {}) == ("the value must have b",)
