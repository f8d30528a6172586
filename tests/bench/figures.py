"""Figures, what they are held against, and the table that shows both (pure)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

HEADINGS = ("figure", "measured", "beside", "", "ratio", "target", "")


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure is to reach. It bounds the ratio where there is one, else the value itself."""

    bound: Literal["at most", "at least"]
    limit: float

    def met(self, found: float) -> bool:
        """Whether what was found is within the bound."""
        return found <= self.limit if self.bound == "at most" else found >= self.limit

    def __str__(self) -> str:
        return f"{'≤' if self.bound == 'at most' else '≥'} {_short(self.limit)}"


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table. `beside` is the same quantity of a floor or a peer, taken in the same run."""

    name: str
    value: float
    unit: str
    beside: float | None = None
    against: str = ""
    target: Target | None = None

    @property
    def ratio(self) -> float | None:
        """The value in multiples of what stands beside it; `None` where nothing does."""
        return self.value / self.beside if self.beside else None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; `None` without one."""
        if self.target is None:
            return None
        return self.target.met(self.value if self.ratio is None else self.ratio)


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which this share of all lies, between neighbours by distance. Raises ValueError for none."""
    if not values:
        raise ValueError("a percentile of nothing was asked for")
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def median(values: Sequence[float]) -> float:
    """The middle value."""
    return percentile(values, 0.5)


def table(figures: Sequence[Figure]) -> str:
    """The figures in columns, as Markdown."""
    return columns(HEADINGS, [_cells(figure) for figure in figures])


def columns(headings: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """Lines of cells below headings, as Markdown."""
    rows = [headings, *cells]
    widths = [max(len(row[column]) for row in rows) for column in range(len(headings))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def _cells(figure: Figure) -> tuple[str, ...]:
    beside = "" if figure.beside is None else f"{_short(figure.beside)} {figure.unit}".rstrip()
    ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
    verdict = {None: "", True: "met", False: "missed"}[figure.met]
    return (
        figure.name,
        f"{_short(figure.value)} {figure.unit}".rstrip(),
        beside,
        figure.against,
        ratio,
        "" if figure.target is None else str(figure.target),
        verdict,
    )


def _short(value: float) -> str:
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}"
