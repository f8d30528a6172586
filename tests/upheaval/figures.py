"""What crowds went through in one upheaval, and the table of it (pure)."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from tests.bench.figures import columns

LONGEST_BEHIND = 10.0
"""Most seconds that a client may be behind in a rolling restart."""

MOST_REPAIRS = 1
"""Most repairs of one client in a rolling restart, beside one for each connection that a client lost which does not
resume: behind a load balancer it may come to each gateway before that one's turn.
"""

HEADINGS = (
    "upheaval",
    "live",
    "behind s",
    "not live s",
    "gaps",
    "resets",
    "repairs",
    "most of one",
    "unprovoked",
    "resumed",
    "connections lost",
    "writes",
    "repeated",
    "only the answer lost",
    "took s",
)


class Figures(BaseModel):
    """Sums and maxima over clients: `clients` there are, those `live` at the end; see `Trouble` and `Tally`."""

    model_config = ConfigDict(frozen=True)

    clients: int
    live: int
    gaps: int
    resets: int
    repairs: int
    most_repairs: int
    most_excess: int
    resumes: int
    lost: int
    behind: float
    not_live: float
    writes: int
    retries: int
    done: int


MAXIMA = frozenset({"most_repairs", "most_excess", "behind", "not_live"})


def together(parts: Sequence[Figures]) -> Figures:
    """The figures of all crowds as those of one."""
    return Figures.model_validate(
        {name: (max if name in MAXIMA else sum)(getattr(part, name) for part in parts) for name in Figures.model_fields}
    )


@dataclass(frozen=True, slots=True)
class Row:
    """One upheaval. `seconds`: from its beginning until every client was live at the newest revision."""

    name: str
    figures: Figures
    seconds: float


def table(rows: Sequence[Row]) -> str:
    """The rows in columns, as Markdown."""
    return columns(HEADINGS, [_cells(row) for row in rows])


def line(row: Row) -> str:
    """A row by itself."""
    return ", ".join(f"{heading} {cell}" for heading, cell in zip(HEADINGS, _cells(row), strict=True))


def verdict(row: Row) -> str:
    """Whether a rolling restart met what is asked of it."""
    found = row.figures
    behind = max(found.behind, found.not_live)
    return (
        f"{row.name}: longest behind {behind:.2f} s (at most {LONGEST_BEHIND:g}: {_met(behind <= LONGEST_BEHIND)}); "
        f"most repairs of one client {found.most_excess} (at most {MOST_REPAIRS}: "
        f"{_met(found.most_excess <= MOST_REPAIRS)}), {found.most_repairs} with those of clients that do not resume"
    )


def _met(holds: bool) -> str:
    return "met" if holds else "missed"


def _cells(row: Row) -> tuple[str, ...]:
    found = row.figures
    counts = (found.gaps, found.resets, found.repairs, found.most_repairs, found.most_excess, found.resumes, found.lost)
    return (
        row.name,
        f"{found.live:,} of {found.clients:,}",
        f"{found.behind:.2f}",
        f"{found.not_live:.2f}",
        *(f"{count:,}" for count in counts),
        *(f"{count:,}" for count in (found.writes, found.retries, found.done)),
        f"{row.seconds:.0f}",
    )
