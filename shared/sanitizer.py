"""Takes system blocks out of message content. What is inside a block was written for the agent, never for a reader."""

OPENING = "<kandev-system>"
CLOSING = "</kandev-system>"


def strip_system_content(content: str) -> str:
    """Removes every shortest span from an opening tag to the next closing tag, with the whitespace behind it; then
    trims the result.

    An opening tag that is not closed stays, and so does a closing tag on its own.
    """
    kept: list[str] = []
    position = 0
    while (start := content.find(OPENING, position)) >= 0:
        end = content.find(CLOSING, start + len(OPENING))
        if end < 0:
            break
        kept.append(content[position:start])
        position = _after_whitespace(content, end + len(CLOSING))
    kept.append(content[position:])
    return "".join(kept).strip()


def has_system_content(content: str) -> bool:
    """Whether the content holds at least one complete block."""
    start = content.find(OPENING)
    return start >= 0 and content.find(CLOSING, start + len(OPENING)) >= 0


def _after_whitespace(content: str, position: int) -> int:
    while position < len(content) and content[position].isspace():
        position += 1
    return position
