"""What an import does with a message that is stored already: it completes what the file knows more of. Pure."""

from collections.abc import Mapping
from enum import Enum

from cli.transcripts.contents import Contents


class Standing(Enum):
    """How a stored message stands to the file's."""

    SAME = "same"
    UNFINISHED = "unfinished"  # a beginning of what the file says: an earlier, shorter file said it
    OTHERWISE = "otherwise"  # it knows more than the file, or something else: it stays


def standing(content: str, metadata: Mapping[str, object], contents: Contents) -> Standing:
    """Compares a stored message with what the file says. An earlier file knew a beginning of the text, and of a tool
    the call without its result; nothing of what is stored may get lost.
    """
    if content == contents.content and metadata == contents.metadata:
        return Standing.SAME
    kept = all(name in contents.metadata and contents.metadata[name] == value for name, value in metadata.items())
    return Standing.UNFINISHED if kept and contents.content.startswith(content) else Standing.OTHERWISE
