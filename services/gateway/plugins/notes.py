"""What in a manifest breaks no rule and is probably not meant: names that nothing here reads."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args

from pydantic import AliasChoices
from pydantic.fields import FieldInfo

from services.gateway.plugins.declarations import Declaration, Manifest
from services.gateway.plugins.rules.terms import shown

READABLE = (
    "messages",
    "tasks",
    "sessions",
    "workspaces",
    "workflows",
    "agent_profiles",
    "executor_profiles",
    "repositories",
)
"""Resources that some host lets plugins read; this one, messages."""

MOST_NOTES = 20
"""Sentences about one manifest."""

_LONGEST_COMPARED = 60
"""Characters of a name that is compared with others: longer than any."""


def notes(content: Mapping[str, Any], manifest: Manifest) -> tuple[str, ...]:
    """A sentence for every key, at any level, and every resource to read that has no meaning here. `content`: what
    `manifest` was read from.
    """
    found = list(dict.fromkeys((*_keys(Manifest, content, ""), *_resources(manifest.capabilities.api_read))))
    more = len(found) - MOST_NOTES
    return (*found[:MOST_NOTES], *((f"and {more:,} more of these",) if more > 0 else ()))


def _keys(model: type[Declaration], content: Any, place: str) -> Iterator[str]:
    if not isinstance(content, Mapping):
        return
    known = {name: field for name, field in model.model_fields.items() for name in _names(name, field)}
    for key, value in content.items():
        if key not in known:
            yield f"the key {shown(place + key)} is unknown here and counts for nothing{_meant(key, known)}"
            continue
        inner = _declared(known[key].annotation)
        if inner is not None:
            listed = value if isinstance(value, list) else [value]
            for item in listed:
                yield from _keys(inner, item, f"{place}{key}.")


def _names(name: str, field: FieldInfo) -> tuple[str, ...]:
    alias = field.validation_alias
    return tuple(map(str, alias.choices)) if isinstance(alias, AliasChoices) else (name,)


# Any: annotations are of every kind.
def _declared(annotation: Any) -> type[Declaration] | None:
    """The declaration that a field holds, one or several of."""
    if isinstance(annotation, type) and issubclass(annotation, Declaration):
        return annotation
    return next((found for each in get_args(annotation) if (found := _declared(each)) is not None), None)


def _resources(asked: Iterable[str]) -> Iterator[str]:
    for resource in asked:
        if resource not in READABLE:
            yield f"api_read {shown(resource)} is nothing that plugins can read{_meant(resource, READABLE)}"


def _meant(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, known, 1) if len(name) <= _LONGEST_COMPARED else []
    return f"; did you mean {close[0]}?" if close else ""
