"""A plugin's settings: what fits the schema that its manifest gives them, and what stands where none is chosen."""

import itertools
import re
from collections.abc import Iterator
from typing import Any

import orjson

from services.gateway.plugins.masking import Config, masked
from services.gateway.plugins.settings_schema import Schema, misfits, schemas_within
from shared.metadata import MAX_DEPTH, within_depth

LARGEST = 64 * 1024
"""Bytes of settings as JSON."""

MOST_VALUES = 2000
"""Objects, lists and what they hold: each is compared with its schema while others wait."""

MOST_PROBLEMS = 20
"""Sentences about settings that do not fit."""

_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


def default_problems(schema: Schema) -> Iterator[str]:
    """Why a default of the schema is none. Each completes the sentence "config_schema ..."."""
    for place, inner in schemas_within(schema):
        default = inner.get("default")
        if default is None:
            continue
        if problem := next(misfits(inner, default), None):
            yield f"{place}the default does not fit: {problem}"
        # A manifest is shown to everybody.
        elif _masked_alone(inner, default) != default:
            yield f"{place}a secret must not have a default"


def with_defaults(schema: Schema | None, config: Config) -> Config:
    """The settings as they are in force: where none is chosen, the default. Items of lists are as they were given."""
    whole = dict(config)
    properties = (schema or {}).get("properties", {})
    for name, described in properties.items():
        if not isinstance(described, dict):
            continue
        if name not in whole and described.get("default") is not None:
            whole[name] = described["default"]
        if isinstance(whole.get(name), dict):
            whole[name] = with_defaults(described, whole[name])
    return whole


def unkeepable(config: Config) -> str | None:
    """Why no settings can be these, whatever their schema says."""
    try:
        data = orjson.dumps(within_depth(config))
    except (ValueError, TypeError):
        return f"must be JSON of at most {MAX_DEPTH} levels, with integers of at most 64 bits"
    if _NUL.search(data):
        return "must not contain a NUL character"
    if len(data) > LARGEST:
        return f"must not be larger than {LARGEST:,} bytes"
    if _count(config) > MOST_VALUES:
        return f"must not hold more than {MOST_VALUES:,} values"
    return None


def check_config(schema: Schema | None, config: Config) -> tuple[str, ...]:
    """Why the settings do not fit the schema, field by field and without any value; empty if they do. Without a schema
    every object fits.
    """
    if problem := unkeepable(config):
        return (problem,)
    if schema is None:
        return ()
    found = itertools.islice(misfits(schema, with_defaults(schema, config)), MOST_PROBLEMS)
    return tuple(dict.fromkeys(found))


def _masked_alone(schema: Schema, value: Any) -> Any:
    return masked({"properties": {"value": schema}}, {"value": value})["value"]


def _count(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_count, inner))
