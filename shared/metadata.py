"""Metadata of sessions, messages and turns: JSON text in the source and in every contract.

Nobody on the way looks into it, so it is parsed once where it comes in, to be sure that it is one JSON object, and
spliced as text into what is sent. Both a writer's and a reader's side of that stand here.
"""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import orjson

MAX_DEPTH = 100
"""Deepest nesting that is kept. Parsers on the way to a client give up at about 200 levels, and one row must not make
its session unreadable.
"""

MAX_BYTES = 1 << 20
"""Most bytes of the JSON text (1 MiB): as much as a receipt or a frame may have altogether."""

HIDDEN_PROMPTS = "has_hidden_prompts"
"""What the gateway adds to the metadata of a message from which it strips something; it is not stored."""

_ENCODER_DEPTH = 254
"""Levels that orjson's encoder follows. It counts them faster than anything that Python could do."""

_LARGE = 1 << 14
"""Characters from which parsing may make so many objects that collections of garbage are most of its time."""


def within_depth(value: dict[str, Any]) -> dict[str, Any]:
    """The value itself. Raises ValueError when it is nested deeper than `MAX_DEPTH`."""
    _encoded(value, shallow=False)
    return value


def metadata_text(value: Mapping[str, Any]) -> str:
    """An object as metadata's text. Raises ValueError for one that is not kept, and says why."""
    return _limited(_encoded(value, shallow=False))


def require_metadata(text: str) -> str:
    """A writer's metadata in its usual spelling: no white space, nothing escaped that need not be. Raises ValueError
    for text that is not one JSON object, and for one that is not kept.
    """
    _limited(text)
    found = _normal(text)
    if found is None:
        raise ValueError("not one JSON object of which every number and character can be told")
    return found


def shown_metadata(text: str | None) -> str | None:
    """What rows carry of stored metadata, in its usual spelling.

    `None` where there is nothing to show: no text, no JSON object, an empty one, and one over `MAX_BYTES` or
    `MAX_DEPTH`. Pages and receipts both come through here, so that they show the same of text that a writer of plain
    SQL chose freely:

    - an integer below -2^63 or above 2^64 - 1 becomes the nearest double;
    - text that names a number beyond every double (`1e999`) or half of a surrogate pair (`\\ud800`) is not taken for
      JSON.
    """
    if not text or text == "{}" or _size(text) > MAX_BYTES:
        return None
    try:
        found = _normal(text)
    except ValueError:
        return None
    return None if found == "{}" else found


def with_hidden_prompts(text: str | None) -> str:
    """Shown metadata, saying that something of its message is not shown."""
    if text is None:
        return f'{{"{HIDDEN_PROMPTS}":true}}'
    if f'"{HIDDEN_PROMPTS}"' not in text:
        return f'{text[:-1]},"{HIDDEN_PROMPTS}":true}}'
    return _encoded({**orjson.loads(text), HIDDEN_PROMPTS: True}, shallow=True)


def text_under(key: str, text: str | None) -> str | None:
    """The text that shown metadata holds under a key. Metadata is its writer's: anything but text is none."""
    if text is None or f'"{key}"' not in text:
        return None
    with collections_paused(len(text)):
        found = orjson.loads(text).get(key)
    return found or None if isinstance(found, str) else None


@contextmanager
def collections_paused(size: int) -> Iterator[None]:
    """Collects no garbage while JSON of this size is parsed and let go: its objects refer to nothing but each other,
    downwards, and looking for circles among a hundred thousand of them takes ten times as long as making them.
    """
    pause = size >= _LARGE and gc.isenabled()
    if pause:
        gc.disable()
    try:
        yield
    finally:
        if pause:
            gc.enable()


def _normal(text: str) -> str | None:
    """The text in its usual spelling; `None` for no JSON object. Raises ValueError for one nested too deep."""
    with collections_paused(len(text)):
        return _parsed_and_told(text)


def _parsed_and_told(text: str) -> str | None:
    """A function of its own: nothing that was parsed is there any more when collections go on."""
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(found, dict):
        return None
    return _encoded(found, shallow=text.count("{") + text.count("[") <= MAX_DEPTH)


def _encoded(value: Mapping[str, Any], *, shallow: bool) -> str:
    """Its JSON. `shallow`: it cannot be nested too deep. Raises ValueError."""
    wrapped: object = value
    levels = 0 if shallow else _ENCODER_DEPTH - MAX_DEPTH
    for _ in range(levels):
        wrapped = (wrapped,)
    try:
        return orjson.dumps(wrapped)[levels or None : -levels or None].decode()
    except orjson.JSONEncodeError:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels, the most that is kept") from None


def _limited(text: str) -> str:
    if _size(text) > MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES} bytes of JSON, the most that is kept")
    return text


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
