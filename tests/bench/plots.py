"""Lines over axes as SVG (pure)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 420, 280
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 34, 62
COLOURS = ("#1f6fb4", "#c8501e", "#2b8a4b")
INK, GRID = "#444", "#ddd"

LOGARITHMIC_FROM = 20.0
"""An axis whose greatest value is this many times its least shows equal ratios as equal lengths."""

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Line:
    """A named series; no value is negative, and on a logarithmic axis none is zero."""

    name: str
    points: Sequence[Point]


@dataclass(frozen=True, slots=True)
class Panel:
    """Lines that share their axes."""

    title: str
    x: str
    y: str
    lines: Sequence[Line]


@dataclass(frozen=True, slots=True)
class Axis:
    """Where values lie along a length, and where it is marked."""

    place: Callable[[float], float]
    marks: Sequence[float]


def axis(values: Sequence[float], start: float, end: float) -> Axis:
    """The axis of these values between two coordinates: logarithmic over whole decades, or linear from zero."""
    least, most = min(values), max(values)
    if least > 0 and most / least >= LOGARITHMIC_FROM:
        low, high = math.floor(math.log10(least)), math.ceil(math.log10(most))
        marks = [10.0**power for power in range(low, high + 1)]
        return Axis(lambda value: start + (end - start) * (math.log10(value) - low) / (high - low), marks)
    step = _step(most or 1.0)
    top = step * math.ceil((most or 1.0) / step - 1e-9)
    marks = [step * number for number in range(round(top / step) + 1)]
    return Axis(lambda value: start + (end - start) * value / top, marks)


def drawn(panels: Sequence[Panel]) -> str:
    """The panels beside each other."""
    width = WIDTH * len(panels)
    parts = "".join(
        f'<g transform="translate({number * WIDTH} 0)">{_panel(panel)}</g>\n' for number, panel in enumerate(panels)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" width="{width}" height="{HEIGHT}" '
        f'font-family="sans-serif" font-size="11" fill="{INK}">\n'
        f'<rect width="{width}" height="{HEIGHT}" fill="white"/>\n{parts}</svg>\n'
    )


def short(value: float) -> str:
    """A number as axes and tables show it: 1,500,000 is 1.5M."""
    for size, sign in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{sign}"
    return f"{value:.3g}"


def _step(most: float) -> float:
    """A round step that divides a linear axis into three to eight."""
    decade = float(10.0 ** math.floor(math.log10(most)))
    return next(part for part in (decade / 5, decade / 2, decade, 2 * decade) if most / part <= 6)


def _panel(panel: Panel) -> str:
    points = [point for line in panel.lines for point in line.points]
    across = axis([x for x, _ in points], LEFT, WIDTH - RIGHT)
    up = axis([y for _, y in points], HEIGHT - BOTTOM, TOP)
    middle = (LEFT + WIDTH - RIGHT) / 2
    return "".join(
        [
            _text(middle, 18, panel.title, 'font-size="12" font-weight="bold"'),
            *(_rule(LEFT, up.place(mark), WIDTH - RIGHT, up.place(mark)) for mark in up.marks),
            *(_rule(across.place(mark), TOP, across.place(mark), HEIGHT - BOTTOM) for mark in across.marks),
            *(_text(LEFT - 6, up.place(mark) + 4, short(mark), anchor="end") for mark in up.marks),
            *(_text(across.place(mark), HEIGHT - BOTTOM + 15, short(mark)) for mark in across.marks),
            _text(middle, HEIGHT - BOTTOM + 31, panel.x),
            _text(
                14, (TOP + HEIGHT - BOTTOM) / 2, panel.y, f'transform="rotate(-90 14 {(TOP + HEIGHT - BOTTOM) / 2})"'
            ),
            *(_line(line, COLOURS[number], across, up) for number, line in enumerate(panel.lines)),
            *(_name(line.name, number) for number, line in enumerate(panel.lines) if len(panel.lines) > 1),
        ]
    )


def _line(line: Line, colour: str, across: Axis, up: Axis) -> str:
    places = [(across.place(x), up.place(y)) for x, y in line.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in places)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>{dots}'


def _name(name: str, number: int) -> str:
    x, y = LEFT + 110 * number, HEIGHT - 12
    swatch = f'<rect x="{x}" y="{y - 8}" width="14" height="3" fill="{COLOURS[number]}"/>'
    return swatch + _text(x + 20, y - 3, name, anchor="start")


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{GRID}"/>'


def _text(x: float, y: float, text: str, more: str = "", *, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{escape(text)}</text>'
