"""Takes system blocks out of message content. What is inside a block was written for the agent, never for a reader."""

import re

OPENING = "<kandev-system>"
CLOSING = "</kandev-system>"

_WHITESPACE = re.compile(r"\s+")

TELLING_PREFIX = "<kandev-"
"""The least of an opening tag that is taken for one at the end of a text that may still grow."""

_TELLING_UTF8 = TELLING_PREFIX.encode()
_VISIBLE = frozenset(range(ord("!"), ord("~") + 1))
"""Bytes that are a whole character each, and none that is trimmed."""


def strip_system_content(content: str) -> str:
    """Removes every shortest span from an opening tag to the next closing tag, with the whitespace behind it; then
    trims the result.

    An opening tag that is not closed stays, and so does a closing tag on its own.
    """
    return _without_blocks(content).strip()


def public_content(content: str) -> str:
    """What is left for readers who must see nothing of a block, closed or not: plugins.

    A block that is being streamed is open for a while, and its tag may come in pieces. So besides complete blocks
    everything from an opening tag on goes, and at the very end a piece of the tag, from `TELLING_PREFIX` on. A shorter
    piece, such as a lone `<`, is shown until more of it is there: it tells nothing.
    """
    if TELLING_PREFIX not in content:
        return content.strip()
    outside, _, _ = _without_blocks(content).partition(OPENING)
    return _without_begun_tag(outside).strip()


def public_utf8(content: bytes) -> bytes:
    """`public_content` of UTF-8: nearly always told without making a text of it. Raises UnicodeDecodeError where it has
    to make one, and this is none.
    """
    trimmed = content.strip()
    if not trimmed or (_TELLING_UTF8 not in trimmed and _begins_and_ends_visibly(trimmed)):
        return trimmed
    return public_content(content.decode()).encode()


def _begins_and_ends_visibly(utf8: bytes) -> bool:
    """Whether nothing would be trimmed of this text, which no space of ASCII bounds."""
    if utf8[0] in _VISIBLE and utf8[-1] in _VISIBLE:
        return True
    # Four bytes hold the outermost character whole, and a part of another that is passed over.
    first, last = utf8[:4].decode(errors="ignore")[:1], utf8[-4:].decode(errors="ignore")[-1:]
    return not (first.isspace() or last.isspace())


def has_system_content(content: str) -> bool:
    """Whether the content holds at least one complete block."""
    start = content.find(OPENING)
    return start >= 0 and content.find(CLOSING, start + len(OPENING)) >= 0


def _without_blocks(content: str) -> str:
    """The content without complete blocks, once over it: what becomes a tag when a block is gone was text."""
    kept: list[str] = []
    position = 0
    while (start := content.find(OPENING, position)) >= 0:
        end = content.find(CLOSING, start + len(OPENING))
        if end < 0:
            break
        kept.append(content[position:start])
        position = _after_whitespace(content, end + len(CLOSING))
    kept.append(content[position:])
    return "".join(kept)


def _without_begun_tag(text: str) -> str:
    begun = text.rfind(TELLING_PREFIX)
    return text[:begun] if begun >= 0 and OPENING.startswith(text[begun:]) else text


def _after_whitespace(content: str, position: int) -> int:
    found = _WHITESPACE.match(content, position)
    return position if found is None else found.end()
