"""What the rules have in common: the form of ids, how a value is quoted, what stands twice."""

import re
from collections import Counter
from collections.abc import Iterable

import orjson

ID = re.compile(r"[a-z0-9][a-z0-9._-]*")
"""Ids of plugins, actions and providers."""

_MOST_SHOWN = 80


def shown(text: str) -> str:
    """The text in quotes for a sentence, cut where it is long."""
    cut = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
    return orjson.dumps(cut).decode()


def repeated(values: Iterable[str]) -> list[str]:
    """The values that stand more than once, each one time."""
    return [value for value, times in Counter(values).items() if times > 1]
