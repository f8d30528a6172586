"""Takes system blocks out of message content. What is inside a block was written for the agent, never for a reader."""

import re

OPENING = "<kandev-system>"
CLOSING = "</kandev-system>"

_WHITESPACE = re.compile(r"\s+")

TELLING_PREFIX = "<kandev-"
"""The least of an opening tag that is taken for one at the end of a text that may still grow."""


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
