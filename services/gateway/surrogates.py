"""Half of a surrogate pair in JSON, as JavaScript writes it for an emoji that was cut: text that is no Unicode.

No parser here takes it. The library's own does, and is asked only to say where it stands and which request it is.
"""

import json
import re
from typing import Any, NamedTuple

_WRITTEN = re.compile(rb"\\u[dD][89a-fA-F]")
_LONE = re.compile("[\ud800-\udfff]")

_PLACE_CHARACTERS = 100
"""Of the name of the place that is told."""


class LoneSurrogate(NamedTuple):
    """The first one of a document. `found`: the document, for those who look for its other parts."""

    place: str
    character: str
    found: Any  # Any: whatever JSON was sent

    def problem(self, whole: str) -> str:
        """What is wrong. `whole`: the document's name, where no field is to blame."""
        escape = f"\\u{ord(self.character):04x}"
        return f"{self.place or whole} holds a lone surrogate ({escape}), which is no Unicode text"


def lone_surrogate(data: str | bytes | bytearray) -> LoneSurrogate | None:
    """The lone surrogate for which no parser takes this JSON; `None` where that is not what is wrong with it."""
    encoded = data.encode() if isinstance(data, str) else data
    if _WRITTEN.search(encoded) is None:
        return None
    try:
        found = json.loads(encoded)
    except (ValueError, RecursionError):
        return None
    waiting: list[tuple[tuple[str, ...], Any]] = [((), found)]
    while waiting:
        place, value = waiting.pop()
        inner: list[tuple[tuple[str, ...], Any]] = []
        if isinstance(value, dict):
            for name, each in value.items():
                if (match := _LONE.search(name)) is not None:
                    return LoneSurrogate(_named(place), match[0], found)
                inner.append(((*place, name), each))
        elif isinstance(value, list):
            inner = [((*place, str(number)), each) for number, each in enumerate(value)]
        elif isinstance(value, str) and (match := _LONE.search(value)) is not None:
            return LoneSurrogate(_named(place), match[0], found)
        waiting += reversed(inner)
    return None


def is_unicode(text: str) -> bool:
    """Whether text has no lone surrogate."""
    return _LONE.search(text) is None


def _named(place: tuple[str, ...]) -> str:
    return ".".join(place)[:_PLACE_CHARACTERS]
