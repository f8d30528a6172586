"""Which pending appends of one message make one update: decided from its length and the text they carry, nothing else.

Lengths and offsets count characters as PostgreSQL's `length` does: Unicode code points.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from shared.contracts.commands import MAX_CONTENT_CHARACTERS


class Fate(Enum):
    """What becomes of one append. Only `WRITTEN` is part of the update's interval."""

    WRITTEN = auto()
    """Its text stands in the message after the update, and some of it was added by it."""
    PRESENT = auto()
    """Its text stood there before: nothing to do."""
    AHEAD = auto()
    """Its offset is beyond the end: what belongs in between may be on its way."""
    CONFLICT = auto()
    """Other text stands at its offset."""
    TOO_LONG = auto()
    """The message would exceed `MAX_CONTENT_CHARACTERS`."""


@dataclass(frozen=True, slots=True)
class Piece:
    """An append: `text` at character `offset`."""

    offset: int
    text: str


@dataclass(frozen=True, slots=True)
class Joined:
    """The update: `addition` goes to the end of the content. `fates` follow the order of the pieces."""

    addition: str
    fates: tuple[Fate, ...]


def join(length: int, known: str, pieces: Sequence[Piece]) -> Joined:
    """Joins what connects to the end of a message of `length` characters, in order of offset, then of arrival.

    `known` is the end of the content, at least from the least offset of any piece on (empty where all are at or beyond
    the end). Linear in the text but for pieces that repeat what is there, each compared once.
    """
    fates: list[Fate | None] = [None] * len(pieces)
    added: list[str] = []
    end = length
    for place in sorted(range(len(pieces)), key=lambda place: pieces[place].offset):
        piece = pieces[place]
        if piece.offset > end:
            fates[place] = Fate.AHEAD
        elif piece.offset == end and piece.text:
            if end + len(piece.text) > MAX_CONTENT_CHARACTERS:
                fates[place] = Fate.TOO_LONG
                continue
            fates[place] = Fate.WRITTEN
            added.append(piece.text)
            end += len(piece.text)
    addition = "".join(added)
    window, start = known + addition, length - len(known)
    return Joined(
        addition,
        tuple(fate or _of_repeated(piece, window, start, length) for fate, piece in zip(fates, pieces, strict=True)),
    )


def _of_repeated(piece: Piece, window: str, start: int, length: int) -> Fate:
    if not window.startswith(piece.text, piece.offset - start):
        return Fate.CONFLICT
    return Fate.WRITTEN if piece.offset + len(piece.text) > length else Fate.PRESENT
