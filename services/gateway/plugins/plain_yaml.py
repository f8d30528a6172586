"""YAML as manifests are written in it: one document of mappings, lists and scalars, and nothing that hides work.

Read from PyYAML's nodes instead of its constructor, which would expand aliases, take the last of two equal keys, make
dates of text, and lose how a number was written (`version: 1.10` is not 1.1).
"""

import math
import re
from typing import Any

import yaml

DEEPEST = 64
"""Most levels of mappings and lists within each other."""

MOST_VALUES = 20_000
"""Mappings, lists, scalars and keys of a document: more take this reader seconds."""

_INTEGER = re.compile(r"[-+]?[0-9]{1,19}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_CONSTANTS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INT64 = range(-(2**63), 2**63)
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class NotPlain(Exception):
    """The text is not YAML, or more than the part of it that is read here. Says what and where."""


class Scalar(str):
    """An unquoted scalar. As text it is what was written; `value` is what YAML's core schema reads in it, so that
    `no`, `12:30` and `2026-12-01` are text.
    """

    @property
    def value(self) -> bool | int | float | str | None:
        """Null, a boolean, a number that JSON can hold, or the text."""
        if self in _CONSTANTS:
            return _CONSTANTS[self]
        if _INTEGER.fullmatch(self) and int(self) in _INT64:
            return int(self)
        if _FLOAT.fullmatch(self) and math.isfinite(float(self)):
            return float(self)
        return str(self)


# Any, here and below: a document is whatever its author wrote.
def read_yaml(data: bytes) -> Any:
    """What the document holds: dicts, lists, `str` for quoted scalars and `Scalar` for others. Raises `NotPlain`."""
    try:
        node = yaml.compose(data, Loader=_Loader)
        return None if node is None else _content(node)
    except yaml.MarkedYAMLError as error:
        where = error.problem_mark
        place = f" (line {where.line + 1}, column {where.column + 1})" if where else ""
        said = ", ".join(part for part in (error.context, error.problem) if part)
        raise NotPlain(f"{said}{place}") from None
    except yaml.reader.ReaderError as error:
        raise NotPlain(f"{error.reason} (position {error.position})") from None
    except (ValueError, ArithmeticError, LookupError) as error:
        # PyYAML's own: an escape beyond Unicode, a directive with a number of thousands of digits.
        raise NotPlain(f"an escape or a directive is out of range ({type(error).__name__})") from None


def plain(content: Any) -> Any:
    """The same with the value of every scalar: what a JSON document would hold."""
    match content:
        case Scalar():
            return content.value
        case dict():
            return {key: plain(value) for key, value in content.items()}
        case list():
            return [plain(item) for item in content]
    return content


class _Loader(yaml.SafeLoader):
    """Composes nodes of bounded depth and number, each from its own text."""

    _depth = 0
    _count = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]  # stubs give the events no types
        if isinstance(event, yaml.AliasEvent):
            raise _refusal("an alias (*name) stands for text elsewhere; write it out", event.start_mark)
        if event.tag is not None:
            raise _refusal("a tag (!name) says how to build a value; only plain values are read", event.start_mark)
        if self._depth == DEEPEST:
            raise _refusal(f"nested deeper than {DEEPEST} levels", event.start_mark)
        if self._count == MOST_VALUES:
            raise _refusal(f"more than {MOST_VALUES:,} values", event.start_mark)
        self._depth += 1
        self._count += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def _content(node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        return _mapping(node)
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node)
    return [_content(item) for item in node.value]


def _scalar(node: yaml.ScalarNode) -> str:
    if _UNSTORABLE.search(node.value):
        raise _refusal("text holds a NUL or half of a surrogate pair", node.start_mark)
    # Without quotes the style is None, or empty where a key has no value.
    return node.value if node.style else Scalar(node.value)


def _mapping(node: yaml.MappingNode) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key_node, value_node in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            raise _refusal("a key must be text", key_node.start_mark)
        key = str(_scalar(key_node))
        if key in found:
            raise _refusal(f"the key {key!r} stands here twice", key_node.start_mark)
        found[key] = _content(value_node)
    return found


# Any: the stubs know two kinds of mark, one of them private.
def _refusal(problem: str, mark: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)
