"""The lines of a file, each with its place, in bounded memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

MAX_LINE_BYTES = 8 << 20
"""Longest line that is read. Real ones stay below 1 MiB; beyond 8 MiB no client could show the message."""

_SKIP_BYTES = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a line stands: its number, from 1, and its bytes in the file."""

    number: int
    offset: int
    length: int


def read_lines(file: BinaryIO, limit: int = MAX_LINE_BYTES) -> Iterator[tuple[Place, bytes | None]]:
    """Every line without its end; None for a line longer than `limit` bytes, which is never held whole."""
    number = offset = 0
    while piece := file.readline(limit + 1):
        number += 1
        length = len(piece)
        if length > limit and not piece.endswith(b"\n"):
            length += _pass_over(file)
            yield Place(number, offset, length), None
        else:
            start = len(_BYTE_ORDER_MARK) if number == 1 and piece.startswith(_BYTE_ORDER_MARK) else 0
            yield Place(number, offset + start, length - start), piece[start:].rstrip(b"\r\n")
        offset += length


def _pass_over(file: BinaryIO) -> int:
    passed = 0
    while piece := file.readline(_SKIP_BYTES):
        passed += len(piece)
        if piece.endswith(b"\n"):
            break
    return passed
