"""Which metrics and labels a PromQL expression names (pure). It is no parser: it knows names from functions, keywords
and labels, and that is all that is asked here.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

WORDS = frozenset(
    {
        *("and", "or", "unless", "by", "without", "on", "ignoring", "group_left", "group_right", "offset", "bool"),
        *("sum", "min", "max", "avg", "count", "topk", "bottomk", "quantile"),
        *("rate", "irate", "increase", "delta", "histogram_quantile", "absent", "abs", "vector", "time", "clamp_min"),
        *("avg_over_time", "max_over_time", "min_over_time"),
    }
)
"""What is no metric. A function that is missing here is taken for one, and found not to exist."""

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_SELECTOR = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\s*\{([^}]*)\}")
_MATCHER = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"')
_RANGE = re.compile(r"\[[^\]]*\]")
_NUMBER = re.compile(r"\b\d[\w.]*")


class Matcher(NamedTuple):
    """A label of a metric and the values that it is compared with."""

    metric: str
    label: str
    values: tuple[str, ...]


def metrics_of(expression: str) -> set[str]:
    """Every name that stands where a metric does."""
    bare = _SELECTOR.sub(r"\1", expression)
    for part in (_TEXT, _GROUPING, _RANGE, _NUMBER):
        bare = part.sub(" ", bare)
    return set(_NAME.findall(bare)) - WORDS


def matchers_of(expression: str) -> Iterator[Matcher]:
    """Every comparison of a label. A pattern counts as the alternatives that it names."""
    for metric, matchers in _SELECTOR.findall(expression):
        for label, operator, value in _MATCHER.findall(matchers):
            yield Matcher(metric, label, tuple(value.split("|")) if "~" in operator else (value,))


def labels_of(expression: str) -> set[str]:
    """Every label that series are grouped by."""
    return {label.strip() for group in _GROUPING.findall(expression) for label in group.split(",") if label.strip()}
