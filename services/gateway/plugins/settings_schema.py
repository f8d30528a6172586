"""The language in which a plugin describes its settings: that part of JSON Schema (Draft 2020-12) which forms need.

A schema comes with a plugin, so what it can make this host do is bounded. A value is described by one schema at most:
there are no references, branches and patterns for names. So a look at settings takes time in proportion to them.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

import orjson
from jsonschema import (
    Draft3Validator,
    Draft4Validator,
    Draft6Validator,
    Draft7Validator,
    Draft201909Validator,
    Draft202012Validator,
)
from jsonschema.exceptions import ValidationError
from jsonschema.validators import create

LARGEST_SCHEMA = 64 * 1024
"""Bytes as JSON."""

DEEPEST_SCHEMA = 20
"""Levels of mappings and lists within a schema."""

MOST_SCHEMAS = 500
"""Schemas within one, itself included: more than any form has fields."""

MOST_CHOICES = 1000
"""Values of an `enum`: the time zones of the world are some six hundred."""

SECRET_MARKS = ("secret", "x-secret", "writeOnly")
"""Keywords that make a setting secret when they are `true`. So does `format: password`."""

_DRAFTS = (
    Draft3Validator,
    Draft4Validator,
    Draft6Validator,
    Draft7Validator,
    Draft201909Validator,
    Draft202012Validator,
)
_MOST_SHOWN = 300
_ALIKE = 0.8
_TYPES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}

# Any, in this module: schemas and settings are JSON that others chose.
Schema = Mapping[str, Any]


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_plain(value: Any) -> bool:
    return not isinstance(value, dict | list)


def _is_schema(value: Any) -> bool:
    return value is True or isinstance(value, dict)


def _are_types(value: Any) -> bool:
    names = value if isinstance(value, list) else [value]
    return bool(names) and all(isinstance(name, str) and name in _TYPES for name in names) and _distinct(names)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value) and _distinct(value)


def _distinct(values: list[Any]) -> bool:
    return len(set(map(_canonical, values))) == len(values)


_COUNT = (_is_count, "must be a whole number from 0 on")
_NUMBER = (_is_number, "must be a number")
_TEXT = (lambda value: isinstance(value, str), "must be text")
_FLAG = (lambda value: isinstance(value, bool), "must be true or false")
_ANY = (lambda _value: True, "")

_KEYWORDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "type": (_are_types, f"must be one or several of {', '.join(_TYPES)}"),
    "enum": (
        lambda value: isinstance(value, list) and 1 <= len(value) <= MOST_CHOICES and all(map(_is_plain, value)),
        f"must list 1 to {MOST_CHOICES:,} values that are neither lists nor objects",
    ),
    "const": (_is_plain, "must be neither a list nor an object"),
    "properties": (
        lambda value: isinstance(value, dict) and all(map(_is_schema, value.values())),
        "must map names to schemas",
    ),
    "required": (_are_names, "must list names, each once"),
    "additionalProperties": (lambda value: value is False or _is_schema(value), "must be a schema, true or false"),
    "items": (_is_schema, "must be a schema"),
    **dict.fromkeys(("minProperties", "maxProperties", "minItems", "maxItems", "minLength", "maxLength"), _COUNT),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _NUMBER),
    "multipleOf": (lambda value: _is_number(value) and value > 0, "must be a number above 0"),
    **dict.fromkeys(("uniqueItems", "readOnly", "writeOnly", "deprecated", "secret"), _FLAG),
    **dict.fromkeys(("title", "description", "format", "pattern", "$comment"), _TEXT),
    **dict.fromkeys(("contentEncoding", "contentMediaType"), _TEXT),
    "examples": (lambda value: isinstance(value, list), "must be a list"),
    "default": _ANY,
}
"""Every keyword of the language, what its value must be, and the sentence for one that is not."""

_AT_ROOT = ("$schema", "$id")

_LEFT_OUT = frozenset(
    {
        *(each for draft in _DRAFTS for each in draft.VALIDATORS),
        *("$anchor", "$defs", "$dynamicAnchor", "$id", "$recursiveAnchor", "$schema", "$vocabulary", "definitions"),
        *("contentSchema", "else", "extends", "id", "maxContains", "minContains", "then"),
    }
) - frozenset(_KEYWORDS)
"""What JSON Schema means something by, in any of its drafts, and this language leaves out. Any other word is taken for
a hint to a form: the library is given none of them.
"""


def schema_problems(schema: Schema) -> tuple[str, ...]:
    """Why the schema cannot describe settings; empty if it can. Each completes the sentence "config_schema ..."."""
    if not _fits(schema, DEEPEST_SCHEMA):
        return (f"must not be nested deeper than {DEEPEST_SCHEMA} levels",)
    if len(orjson.dumps(schema)) > LARGEST_SCHEMA:
        return (f"must not be larger than {LARGEST_SCHEMA:,} bytes",)
    if schema.get("type") != "object":
        return ('must have type "object"',)
    count = 0
    problems: list[str] = []
    for place, inner in schemas_within(schema):
        count += 1
        problems += (f"{place}{problem}" for problem in _of_one(inner, at_root=not place))
    if count > MOST_SCHEMAS:
        return (f"must not hold more than {MOST_SCHEMAS:,} schemas",)
    return tuple(problems)


def schemas_within(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """The schema and all that it holds, each after what begins a sentence about it."""
    waiting: list[tuple[str, Any]] = [("", schema)]
    while waiting:
        place, inner = waiting.pop()
        if not isinstance(inner, dict):
            continue
        yield (f"at {place}: " if place else ""), inner
        parts = {name: inner.get(name) for name in ("items", "additionalProperties")}
        properties = inner.get("properties")
        named = properties if isinstance(properties, dict) else {}
        parts.update((f"properties.{name}", each) for name, each in named.items())
        waiting += [(f"{place}.{name}" if place else name, each) for name, each in reversed(parts.items())]


def of_property(schema: Any, name: str) -> Any:
    """What describes a property of a value that `schema` describes; `None` where nothing does."""
    if not isinstance(schema, dict):
        return None
    return schema.get("properties", {}).get(name, schema.get("additionalProperties"))


def of_item(schema: Any) -> Any:
    """What describes each item of a list that `schema` describes; `None` where nothing does."""
    return schema.get("items") if isinstance(schema, dict) else None


def is_secret(schema: Any) -> bool:
    """Whether the value that the schema describes is secret, all of it."""
    return isinstance(schema, dict) and (
        schema.get("format") == "password" or any(schema.get(mark) is True for mark in SECRET_MARKS)
    )


def misfits(schema: Schema, value: Any) -> Iterator[str]:
    """What of the value does not fit the schema, by place and rule and without any value. For schemas without
    `schema_problems` alone.
    """
    for error in _SETTINGS(schema).iter_errors(value):
        yield f"{_place(error.absolute_path)} {_rule(error)}"


def _of_one(schema: Schema, *, at_root: bool) -> Iterator[str]:
    """What is wrong with a schema, apart from those within it."""
    for keyword, value in schema.items():
        if at_root and keyword in _AT_ROOT and isinstance(value, str):
            continue
        if keyword in _LEFT_OUT:
            yield f"must not use {_quoted(keyword)}; it may use {', '.join(_KEYWORDS)}"
            continue
        if keyword not in _KEYWORDS:
            # What says nothing about values is a hint for a form, such as `placeholder`, unless it was mistyped.
            meant = [] if keyword.startswith("x-") else get_close_matches(keyword, _KEYWORDS, 1, _ALIKE)
            if meant:
                yield f"must not use {_quoted(keyword)}; {meant[0]} is probably meant"
            continue
        fits, sentence = _KEYWORDS[keyword]
        if not fits(value):
            yield f"{keyword} {sentence}"


def _fits(content: Any, levels: int) -> bool:
    inner = content.values() if isinstance(content, Mapping) else content if isinstance(content, list) else ()
    return all(levels > 0 and _fits(each, levels - 1) for each in inner if isinstance(each, Mapping | list))


def _canonical(value: Any) -> bytes:
    """The same bytes for what JSON Schema calls equal."""
    return orjson.dumps(_without_whole_floats(value), option=orjson.OPT_SORT_KEYS)


def _without_whole_floats(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, dict):
        return {key: _without_whole_floats(each) for key, each in value.items()}
    return [_without_whole_floats(each) for each in value] if isinstance(value, list) else value


# The library compares each item with each, and each choice by steps of its own.
def _unique_items(_validator: Any, wanted: bool, value: Any, _schema: Any) -> Iterator[ValidationError]:
    if wanted and isinstance(value, list) and not _distinct(value):
        yield ValidationError("repeated")


def _enum(_validator: Any, choices: list[Any], value: Any, _schema: Any) -> Iterator[ValidationError]:
    # To Python 1 and true are equal.
    if not any(each == value and isinstance(each, bool) == isinstance(value, bool) for each in choices):
        yield ValidationError("no choice")


_CHECKED = _KEYWORDS.keys() & Draft202012Validator.VALIDATORS.keys() - {"pattern", "format", "uniqueItems", "enum"}
_SETTINGS = create(
    meta_schema={},
    validators={
        **{keyword: Draft202012Validator.VALIDATORS[keyword] for keyword in _CHECKED},
        "uniqueItems": _unique_items,
        "enum": _enum,
    },
    type_checker=Draft202012Validator.TYPE_CHECKER,
)

_RULES: Mapping[str, str] = {
    "const": "must be {}",
    "minimum": "must be at least {}",
    "maximum": "must be at most {}",
    "exclusiveMinimum": "must be more than {}",
    "exclusiveMaximum": "must be less than {}",
    "multipleOf": "must be a multiple of {}",
    "minLength": "must have at least {} characters",
    "maxLength": "must have at most {} characters",
    "minItems": "must have at least {} items",
    "maxItems": "must have at most {} items",
    "minProperties": "must have at least {} keys",
    "maxProperties": "must have at most {} keys",
    "uniqueItems": "must not hold an item twice",
    "additionalProperties": "has a key that is not described",
}


def _rule(error: ValidationError) -> str:
    expected: Any = error.validator_value
    found: Any = error.instance
    match error.validator:
        case "type":
            names = expected if isinstance(expected, list) else [expected]
            return f"must be {' or '.join(_TYPES[name] for name in names)}"
        case "enum":
            return f"must be one of {_cut(', '.join(orjson.dumps(each).decode() for each in expected))}"
        case "required":
            return f"must have {_cut(', '.join(name for name in expected if name not in found))}"
    return _RULES[str(error.validator)].format(_cut(orjson.dumps(expected).decode()))


def _place(path: Iterable[str | int]) -> str:
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{_name(step)}" for step in path)
    return steps.removeprefix(".") or "the value"


def _name(key: str) -> str:
    return key if re.fullmatch(r"[\w-]{1,80}", key) else _quoted(key)


def _quoted(text: str) -> str:
    return orjson.dumps(_cut(text)).decode()


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
