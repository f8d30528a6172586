"""The language of settings' schemas: what it holds, what it leaves out, and that a look at settings stays linear."""

from typing import Any

import pytest

from services.gateway.plugins.configuration import default_problems
from services.gateway.plugins.settings_schema import (
    LARGEST_SCHEMA,
    MOST_CHOICES,
    MOST_SCHEMAS,
    misfits,
    schema_problems,
)


def described(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    "schema",
    [
        described(),
        described(n={"type": "integer", "enum": [2, 3], "default": 2}, s={"enum": ["default", "soft grey"]}),
        {**described(a={"type": "string", "pattern": "(a+)+$"}), "required": ["a"], "$schema": "http://elsewhere"},
        described(a={"type": ["string", "null"], "format": "uri", "x-order": {"any": 1}, "examples": ["a"]}, b=True),
        described(a={"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3, "uniqueItems": True}),
        {"type": "object", "additionalProperties": False, "maxProperties": 3, "$id": "settings", "$comment": "c"},
        described(a={"minimum": 0.5, "exclusiveMaximum": 3, "multipleOf": 0.5, "deprecated": True, "readOnly": True}),
        described(
            a={"const": "", "secret": True, "writeOnly": True, "x-secret": True, "default": ""},
            b={"type": "string", "default": None},
        ),
    ],
)
def test_schemas_of_settings(schema: dict[str, Any]) -> None:
    assert schema_problems(schema) == ()
    assert list(default_problems(schema)) == []


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({}, 'must have type "object"'),
        ({"type": "array"}, 'must have type "object"'),
        (described(a={"type": "int"}), "at properties.a: type must be one or several of string, integer"),
        (described(a={"type": ["string", "string"]}), "at properties.a: type must be one or several"),
        (described(a={"type": []}), "at properties.a: type must be one or several"),
        (described(a={"type": {}}), "at properties.a: type must be one or several"),
        (described(a={"minimum": "1"}), "at properties.a: minimum must be a number"),
        (described(a={"minimum": True}), "at properties.a: minimum must be a number"),
        (described(a={"multipleOf": 0}), "at properties.a: multipleOf must be a number above 0"),
        (described(a={"minLength": -1}), "at properties.a: minLength must be a whole number from 0 on"),
        (described(a={"title": 5}), "at properties.a: title must be text"),
        (described(a={"secret": "yes"}), "at properties.a: secret must be true or false"),
        (described(a={"enum": []}), "at properties.a: enum must list 1 to 1,000 values"),
        (described(a={"enum": [[1]]}), "at properties.a: enum must list 1 to 1,000 values"),
        (described(a={"enum": list(range(MOST_CHOICES + 1))}), "at properties.a: enum must list 1 to 1,000 values"),
        (described(a={"const": {}}), "at properties.a: const must be neither a list nor an object"),
        (described(a={"items": [{}]}), "at properties.a: items must be a schema"),
        (described(a={"items": {"items": 1}}), "at properties.a.items: items must be a schema"),
        (described(a={"additionalProperties": {"items": 1}}), "at properties.a.additionalProperties: items must be"),
        (described(a={"items": False}), "at properties.a: items must be a schema"),
        (described(a=False), "properties must map names to schemas"),
        (described(a=1), "properties must map names to schemas"),
        ({"type": "object", "properties": []}, "properties must map names to schemas"),
        ({"type": "object", "required": "a"}, "required must list names, each once"),
        ({"type": "object", "required": ["a", "a"]}, "required must list names, each once"),
        (described(a={"description": "x" * LARGEST_SCHEMA}), "must not be larger than 65,536 bytes"),
        (described(**{str(number): {} for number in range(MOST_SCHEMAS)}), "must not hold more than 500 schemas"),
        (described(a={"$schema": "http://json-schema.org/draft-07/schema"}), 'at properties.a: must not use "$schema"'),
        (described(a={"$id": "elsewhere"}), 'at properties.a: must not use "$id"'),
        ({"type": "object", "$schema": 1}, 'must not use "$schema"'),
    ],
)
def test_what_is_no_schema_of_settings(schema: dict[str, Any], says: str) -> None:
    (problem,) = schema_problems(schema)
    assert problem.startswith(says)


@pytest.mark.parametrize(
    "keyword",
    [
        "$ref", "$dynamicRef", "$recursiveRef", "$dynamicAnchor", "$anchor", "$defs", "$vocabulary", "definitions",
        "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependentRequired",
        "dependencies", "patternProperties", "propertyNames", "prefixItems", "contains", "minContains",
        "maxContains", "unevaluatedItems", "unevaluatedProperties", "additionalItems", "extends",
        "requird", "propertys",
    ],
)  # fmt: skip
def test_what_the_language_leaves_out(keyword: str) -> None:
    values: tuple[Any, ...] = ({}, [{}], "#")
    for value in values:
        for schema in ({"type": "object", keyword: value}, described(a={"items": {keyword: value}})):
            assert any(f'must not use "{keyword}"' in problem for problem in schema_problems(schema))


def test_hints_for_forms_may_have_any_name() -> None:
    """Packages made for other versions of the host have some of their own."""
    hints: dict[str, Any] = {"placeholder": "text", "order": 3, "ui:widget": {"rows": [1]}, "x-hint": None}
    schema = described(a={"type": "string", **hints})
    assert schema_problems(schema) == ()
    assert list(misfits(schema, {"a": "chosen"})) == []
    assert list(misfits(schema, {"a": 1})) == ["a must be text"]


def test_a_deep_schema_is_refused_and_the_deepest_allowed_is_checked() -> None:
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(20):
        deep = {"type": "object", "additionalProperties": deep}
    assert schema_problems(deep) == ()
    assert schema_problems({"type": "object", "items": deep}) == ("must not be nested deeper than 20 levels",)


def test_every_fault_is_told() -> None:
    problems = schema_problems(described(a={"type": "int", "minimum": "1"}, b={"items": {"$ref": "#"}}))
    assert len(problems) == 3


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        (described(a={"type": "integer", "default": "1"}), "at properties.a: the default does not fit: the value must"),
        (described(a={"enum": [1, 2], "default": True}), "at properties.a: the default does not fit: the value must"),
        (described(a={**described(b={"maxLength": 1}), "default": {"b": "xx"}}), "at properties.a: the default does"),
        (described(a={"items": {"type": "string", "default": 1}}), "at properties.a.items: the default does not fit"),
        (described(a={"secret": True, "default": "planted"}), "at properties.a: a secret must not have a default"),
        (
            {**described(a={"secret": True}), "default": {"a": "planted"}},
            "a secret must not have a default",
        ),
    ],
)
def test_defaults_that_are_none(schema: dict[str, Any], says: str) -> None:
    assert schema_problems(schema) == ()
    (problem,) = default_problems(schema)
    assert problem.startswith(says)
    assert "planted" not in problem


@pytest.mark.parametrize(
    ("items", "unique"),
    [
        ([1, 1.0], False),
        ([1, True], True),
        ([[1], [1.0]], False),
        ([{"a": 1, "b": 2}, {"b": 2, "a": 1}], False),
        ([1, "1"], True),
    ],
)
def test_items_that_are_there_twice(items: list[Any], unique: bool) -> None:
    assert list(misfits({"uniqueItems": True}, items)) == ([] if unique else ["the value must not hold an item twice"])
    assert list(misfits({"uniqueItems": False}, items)) == []


class Counted(str):
    """Text that counts how often it is compared."""

    times = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Counted.times += 1
        return str.__eq__(self, other)


def test_items_are_not_compared_each_with_each() -> None:
    Counted.times = 0
    assert list(misfits({"uniqueItems": True}, [Counted(number) for number in range(1000)])) == []
    assert Counted.times < 5000
