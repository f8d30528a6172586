"""A plugin's settings: the schema that its manifest gives them, which values fit it, and which are secret.

Schemas are JSON Schema, Draft 2020-12. They come with a plugin, so what they could make this host do is bounded:
references and patterns for names are refused, and `pattern` is left to the form in the browser.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import create

from shared.metadata import MAX_DEPTH, within_depth

LARGEST = 64 * 1024
"""Bytes of a schema, and of a configuration, as JSON."""

DEEPEST_SCHEMA = 20
"""Levels within a schema: to check one takes many calls within each other for each."""

SECRET_MARKS = ("secret", "x-secret", "writeOnly")
"""Keywords that make a setting secret when they are `true`. So does `format: password`."""

MASK = "********"
"""What stands for a secret that is set."""

_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_REFUSED = ("$ref", "$dynamicRef", "patternProperties")
_SETTINGS = create(
    meta_schema=Draft202012Validator.META_SCHEMA,
    # A pattern can take longer than any request on a value made for it.
    validators={name: check for name, check in Draft202012Validator.VALIDATORS.items() if name != "pattern"},
    type_checker=Draft202012Validator.TYPE_CHECKER,
)
_SCHEMA = Draft202012Validator(Draft202012Validator.META_SCHEMA)

# Any, in this module: schemas and settings are JSON that others chose.
Schema = Mapping[str, Any]
Config = dict[str, Any]
Place = tuple[str | int, ...]


def schema_problems(schema: Schema) -> tuple[str, ...]:
    """Why the schema cannot describe settings; empty if it can. Each completes the sentence "config_schema ..."."""
    if not _fits(schema, DEEPEST_SCHEMA):
        return (f"must not be nested deeper than {DEEPEST_SCHEMA} levels",)
    if len(orjson.dumps(schema)) > LARGEST:
        return (f"must not be larger than {LARGEST:,} bytes",)
    if problems := tuple(f"must not use {keyword}" for keyword in _REFUSED if _uses(schema, keyword)):
        return problems
    if schema.get("type") != "object":
        return ('must have type "object"',)
    return tuple(f"is no JSON Schema: {error.json_path}: {error.message}" for error in _SCHEMA.iter_errors(schema))


def check_config(schema: Schema | None, config: Config) -> tuple[str, ...]:
    """Why the settings do not fit the schema, field by field and without any value; empty if they do. Without a schema
    every object fits.
    """
    try:
        data = orjson.dumps(within_depth(config))
    except (ValueError, TypeError):
        return (f"must be JSON of at most {MAX_DEPTH} levels",)
    if _NUL.search(data):
        return ("must not contain a NUL character",)
    if len(data) > LARGEST:
        return (f"must not be larger than {LARGEST:,} bytes",)
    if schema is None:
        return ()
    return tuple(dict.fromkeys(_problem(error) for error in _SETTINGS(schema).iter_errors(config)))


def masked(schema: Schema | None, config: Config) -> Config:
    """The settings as they may be shown: `MASK` for every secret that is set."""
    shown: Config = _with_secrets(config, _in_force(schema), (), lambda _place, _secret: MASK)
    return shown


def restored(schema: Schema | None, submitted: Config, stored: Config) -> Config:
    """The settings that somebody means who was shown masked ones: `MASK` is the secret stored in its place."""

    def meant(place: Place, secret: Any) -> Any:
        return _at(stored, place, secret) if secret == MASK else secret

    config: Config = _with_secrets(submitted, _in_force(schema), (), meant)
    return config


def _with_secrets(value: Any, schemas: Sequence[Schema], place: Place, replace: Callable[[Place, Any], Any]) -> Any:
    """The value with what `replace` makes of every secret in it. `schemas`: all that describe it; what none describes
    is not looked into, so that this goes no deeper than a schema.
    """
    if not schemas:
        return value
    if any(schema.get("format") == "password" or True in map(schema.get, SECRET_MARKS) for schema in schemas):
        return value if value in (None, "") else replace(place, value)
    if isinstance(value, dict):
        return {
            key: _with_secrets(inner, _of_property(schemas, key), (*place, key), replace)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [
            _with_secrets(inner, _of_item(schemas, index), (*place, index), replace)
            for index, inner in enumerate(value)
        ]
    return value


def _in_force(*schemas: Any) -> list[Schema]:
    """The schemas and all that they apply to the same value; those that only say yes or no describe nothing."""
    found: list[Schema] = []
    for schema in schemas:
        if isinstance(schema, Mapping):
            found.append(schema)
            found += _in_force(*(schema.get(keyword) for keyword in ("if", "then", "else", "not")))
            found += _in_force(*(each for keyword in ("allOf", "anyOf", "oneOf") for each in schema.get(keyword, ())))
            found += _in_force(*schema.get("dependentSchemas", {}).values())
    return found


def _of_property(schemas: Iterable[Schema], key: str) -> list[Schema]:
    found: list[Schema] = []
    for schema in schemas:
        others = (schema.get("additionalProperties"), schema.get("unevaluatedProperties"))
        named = schema.get("properties", {})
        found += _in_force(named[key]) if key in named else _in_force(*others)
    return found


def _of_item(schemas: Iterable[Schema], index: int) -> list[Schema]:
    found: list[Schema] = []
    for schema in schemas:
        first = schema.get("prefixItems", ())[index : index + 1]
        found += _in_force(*first, *map(schema.get, ("items", "contains", "unevaluatedItems")))
    return found


def _at(stored: Any, place: Place, otherwise: Any) -> Any:
    for step in place:
        try:
            stored = stored[step]
        except (KeyError, IndexError, TypeError):
            return otherwise
    return stored


def _uses(content: Any, keyword: str) -> bool:
    if isinstance(content, Mapping):
        return keyword in content or any(_uses(each, keyword) for each in content.values())
    return isinstance(content, list) and any(_uses(each, keyword) for each in content)


def _fits(content: Any, levels: int) -> bool:
    inner = content.values() if isinstance(content, Mapping) else content if isinstance(content, list) else ()
    return all(levels > 0 and _fits(each, levels - 1) for each in inner if isinstance(each, Mapping | list))


def _problem(error: ValidationError) -> str:
    expected: Any = error.validator_value
    found: Any = error.instance
    match error.validator:
        case "required":
            return f"{error.json_path} must have {', '.join(name for name in expected if name not in found)}"
        case "additionalProperties":
            return f"{error.json_path} has a key that is not described"
        case "type" | "enum" | "const" | "minimum" | "maximum" | "minLength" | "maxLength":
            return f"{error.json_path} must satisfy {error.validator} {orjson.dumps(expected).decode()}"
    return f"{error.json_path} does not satisfy {error.validator}"
