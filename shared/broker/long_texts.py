"""Long contents of messages in a page's answer: behind its JSON, as they are.

As JSON a text may be six times as large, and both sides would spend most of their time on writing and reading that.
Behind the document stands each as a NUL, which neither JSON nor the source's text can hold, and its UTF-8.
"""

from collections.abc import Iterable

from shared.contracts.errors import RequestFailed
from shared.contracts.reads import MessagesAnswer, UnchangedAnswer

LONG_CHARACTERS = 1 << 16
"""A content longer than this stands behind the JSON."""

_MARK = b"\x00"


def followed_by(document: bytes, texts: Iterable[str]) -> bytes:
    """The answer of this JSON, with the texts of the rows that its `long` names."""
    return _MARK.join((document, *(text.encode() for text in texts)))


def split(body: bytes) -> tuple[bytes, tuple[bytes, ...]]:
    """An answer's JSON, and the texts behind it."""
    document, *texts = body.split(_MARK)
    return document, tuple(texts)


def completed(answer: MessagesAnswer | UnchangedAnswer, texts: tuple[bytes, ...]) -> MessagesAnswer | UnchangedAnswer:
    """The answer with its rows' long contents in them. Raises RequestFailed where these are not the ones it names."""
    named = answer.long if isinstance(answer, MessagesAnswer) else ()
    if len(named) != len(texts):
        raise RequestFailed("unavailable", "the answer cannot be read; ask again")
    if isinstance(answer, UnchangedAnswer) or not named:
        return answer
    rows = list(answer.rows)
    for index, text in zip(named, texts, strict=True):
        rows[index] = rows[index].model_copy(update={"content": text.decode()})
    return answer.model_copy(update={"rows": tuple(rows), "long": ()})
