"""Schemas of settings, settings that fit them, and secrets among these."""

from typing import Any

import pytest

from services.gateway.plugins.configuration import LARGEST, MASK, check_config, masked, restored, schema_problems


def described(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


SECRETS = described(
    by_format={"type": "string", "format": "password"},
    by_mark={"type": "string", "secret": True},
    by_extension={"x-secret": True},
    by_standard={"writeOnly": True},
    plain={"secret": False, "format": "uri"},
    nested=described(inner={"secret": True}, open={}),
    listed={"items": {"secret": True}},
    tupled={"prefixItems": [{}, {"secret": True}]},
    branched={"anyOf": [True, {"if": {}, "then": described(inner={"secret": True})}]},
    mapped={"additionalProperties": {"format": "password"}, "properties": {"open": {}}},
    depending={"dependentSchemas": {"x": described(inner={"secret": True})}},
)
STORED = {
    "by_format": "s1",
    "by_mark": "s2",
    "by_extension": {"any": "s3"},
    "by_standard": ["s4"],
    "plain": "open",
    "nested": {"inner": "s5", "open": "open", "undescribed": 1},
    "listed": ["s6", "s7"],
    "tupled": ["open", "s8"],
    "branched": {"inner": "s9"},
    "mapped": {"open": "open", "more": "s10"},
    "depending": {"inner": "s11"},
    "undescribed": None,
}


@pytest.mark.parametrize(
    "schema",
    [
        described(),
        described(n={"type": "integer", "enum": [2, 3], "default": 2}, s={"enum": ["default", "soft grey"]}),
        {**described(a={"type": "string", "pattern": "(a+)+$"}), "required": ["a"], "$schema": "http://elsewhere"},
        SECRETS,
    ],
)
def test_schemas_of_settings(schema: dict[str, Any]) -> None:
    assert schema_problems(schema) == ()


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({}, 'must have type "object"'),
        ({"type": "array"}, 'must have type "object"'),
        (described(a={"type": "int"}), "is no JSON Schema: $.properties.a.type"),
        (described(a={"minimum": "1"}), "is no JSON Schema: $.properties.a.minimum"),
        ({"type": "object", "required": "a"}, "is no JSON Schema: $.required"),
        (described(a={"$ref": "https://example.org/schema"}), "must not use $ref"),
        ({"type": "object", "$defs": {"a": {"$ref": "#/$defs/a"}}}, "must not use $ref"),
        (described(a={"allOf": [{"$dynamicRef": "#a"}]}), "must not use $dynamicRef"),
        (described(a={"patternProperties": {"(a+)+$": {}}}), "must not use patternProperties"),
        (described(a={"description": "x" * LARGEST}), "must not be larger than 65,536 bytes"),
    ],
)
def test_what_is_no_schema_of_settings(schema: dict[str, Any], says: str) -> None:
    (problem,) = schema_problems(schema)
    assert problem.startswith(says)


def test_a_deep_schema_is_refused_and_the_deepest_allowed_is_checked() -> None:
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(20):
        deep = {"type": "object", "not": deep}
    assert schema_problems(deep) == ()
    assert schema_problems({"type": "object", "not": deep}) == ("must not be nested deeper than 20 levels",)


def test_everything_that_does_not_fit_is_told_without_any_value() -> None:
    schema = {
        **described(
            size={"type": "integer", "enum": [2, 3]},
            name={"type": "string", "maxLength": 3},
            key={"type": "string", "secret": True},
            one={"oneOf": [{"type": "integer"}, {"type": "boolean"}]},
        ),
        "required": ["size", "other", "more"],
        "additionalProperties": False,
    }
    config = {"size": "hunter2", "name": "hunter2", "key": ["hunter2"], "one": "hunter2", "hunter2": 1}
    told = check_config(schema, config)
    assert set(told) == {
        '$.size must satisfy type "integer"',
        "$.size must satisfy enum [2,3]",
        "$.name must satisfy maxLength 3",
        '$.key must satisfy type "string"',
        "$.one does not satisfy oneOf",
        "$ must have other, more",
        "$ has a key that is not described",
    }


@pytest.mark.parametrize("value", [2, 3])
def test_integer_enums(value: int) -> None:
    schema = described(n={"type": "integer", "enum": [2, 3]})
    assert check_config(schema, {"n": value}) == ()
    assert check_config(schema, {"n": True}) != ()


def test_patterns_are_left_to_the_form() -> None:
    assert check_config(described(a={"pattern": "(a+)+$"}), {"a": "a" * 50_000 + "!"}) == ()


@pytest.mark.parametrize("schema", [None, described()])
def test_settings_that_could_not_be_kept_are_refused(schema: dict[str, Any] | None) -> None:
    deep: dict[str, Any] = {}
    for _ in range(100):
        deep = {"a": deep}
    assert check_config(schema, deep) == ("must be JSON of at most 100 levels",)
    assert check_config(schema, {"a": "\ud800"}) == ("must be JSON of at most 100 levels",)
    assert check_config(schema, {"a": "x" * LARGEST}) == ("must not be larger than 65,536 bytes",)
    assert check_config(schema, {"a\0": 1}) == check_config(schema, {"a": ["\\\0"]})
    assert check_config(schema, {"a": "\0"}) == ("must not contain a NUL character",)
    assert check_config(schema, {"a": "\\u0000", "b": "\\\\u0000", "c": 1}) == ()


def test_secrets_are_masked_wherever_they_stand() -> None:
    shown = masked(SECRETS, STORED)
    assert "'s" not in str(shown)
    assert str(shown).count(MASK) == 11
    assert str(shown).count("open'") == str(STORED).count("open'")
    assert shown["undescribed"] is None


def test_what_is_not_set_is_shown_as_that() -> None:
    assert masked(SECRETS, {"by_mark": "", "by_format": None}) == {"by_mark": "", "by_format": None}


def test_masked_settings_that_come_back_keep_their_secrets() -> None:
    assert restored(SECRETS, masked(SECRETS, STORED), STORED) == STORED
    changed = {**masked(SECRETS, STORED), "by_mark": "new", "plain": MASK}
    assert restored(SECRETS, changed, STORED) == {**STORED, "by_mark": "new", "plain": MASK}


def test_a_mask_for_what_was_never_stored_is_only_text() -> None:
    assert restored(SECRETS, {"by_mark": MASK, "nested": {"inner": MASK}}, {"nested": 1}) == {
        "by_mark": MASK,
        "nested": {"inner": MASK},
    }


def test_settings_of_any_depth_can_be_restored_and_then_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"nested": deep}
    assert restored(SECRETS, deep, {})["nested"]["nested"] is deep["nested"]["nested"]
    assert check_config(SECRETS, deep) == ("must be JSON of at most 100 levels",)


def test_without_a_schema_nothing_is_secret() -> None:
    assert masked(None, {"a": "b"}) == {"a": "b"}
    assert restored(None, {"a": MASK}, {"a": "b"}) == {"a": MASK}
