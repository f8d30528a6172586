"""Rows as columns of text."""

from collections.abc import Sequence

from rich.cells import cell_len


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A line of heads and a line for each row, in columns as a terminal shows them; nothing for no rows."""
    if not rows:
        return []
    lines = [heads, *rows]
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(cell + " " * (width - cell_len(cell)) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
