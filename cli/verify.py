"""`kandev-conversation verify`: follows sessions as clients do, then compares what they show with the source."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass

import click
import orjson

from cli.errors import CommandFailed
from cli.options import SESSION, Finite, url_option
from cli.target import not_followed, not_reached, target_token, target_url
from client.comparison import Comparison, Outcome, compare
from client.connection import Connection, ConnectionFailed
from client.events import CloseReason
from client.follower import Follower, ScopeClosed
from client.range import Filter
from client.source import Difference

CONVERGENCE_SECONDS = 10.0
"""Longest wait, after the period, for a scope to reach the source: a check period, its grace, a repair, and some
slack.
"""

FIRST_ROWS_SECONDS = 10.0
"""Longest wait for the first rows of a session that exists."""

SCOPES = {"all rows": Filter(), "prompts": Filter(authors=("user",))}
"""The kinds of scope that are opened on every session."""

SHOWN_ROWS = 20
"""Rows of a difference that are printed of each kind; the rest is counted."""

VALUE_CHARACTERS = 60
"""Longest printed piece of a value that differs."""


@dataclass(frozen=True, slots=True)
class Report:
    """What one scope went through. `revision`: as clients see it, a decimal string. `behind_seconds`: the longest time
    for which it knew that it was behind.
    """

    session: str
    scope: str
    comparison: Comparison
    revision: str | None
    rows: int
    gaps: int
    repairs: int
    resets: int
    reads: int
    behind_seconds: float

    @property
    def good(self) -> bool:
        """Whether the scope shows what it must."""
        return self.comparison.outcome in {Outcome.EQUAL, Outcome.REMOVED}


@click.command()
@click.argument("sessions", nargs=-1, required=True, metavar="SESSION...", type=SESSION)
@click.option("--seconds", type=Finite(min=0), default=5.0, show_default=True, help="How long to follow.")
@url_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each scope.")
def verify(sessions: tuple[str, ...], seconds: float, url: str | None, as_json: bool) -> None:
    """Check that what followers see equals the source.

    Every session is followed twice: all rows, and the prompts alone. After the time is over, each scope is compared
    with the source at one revision; while the source goes on changing, that is tried again for up to ten seconds.

    Exit codes: 0 equal, 1 different (what differs is printed), 2 could not run.
    """
    try:
        reports = asyncio.run(follow_and_compare(target_url(url), sessions, seconds))
    except ConnectionFailed as error:
        raise not_reached(error) from error
    for report in reports:
        click.echo(as_line(report) if as_json else as_text(report))
    raise SystemExit(0 if all(report.good for report in reports) else 1)


async def follow_and_compare(url: str, sessions: tuple[str, ...], seconds: float) -> list[Report]:
    """Follows each session in every kind of scope and reports on each. Raises ConnectionFailed and CommandFailed."""
    async with Connection(url, token=target_token()) as connection, AsyncExitStack() as stack:
        followers = [
            (name, await stack.enter_async_context(Follower(connection, session, scope_filter=chosen, everything=True)))
            for session in dict.fromkeys(sessions)
            for name, chosen in SCOPES.items()
        ]
        for _, follower in followers:
            await _first_rows(follower)
        await asyncio.sleep(seconds)
        comparisons = await asyncio.gather(
            *(compare(connection, follower, CONVERGENCE_SECONDS) for _, follower in followers)
        )
        return [
            _report(name, follower, comparison)
            for (name, follower), comparison in zip(followers, comparisons, strict=True)
        ]


async def _first_rows(follower: Follower) -> None:
    session = follower.state.scope.session_id
    try:
        async with asyncio.timeout(FIRST_ROWS_SECONDS):
            await follower.wait_until(lambda state: state.held is not None)
    except TimeoutError as error:
        raise CommandFailed(
            f"Session {session} could not be read within {FIRST_ROWS_SECONDS:.0f} s. Is a reader running?"
        ) from error
    except ScopeClosed as closed:
        if closed.reason is not CloseReason.REMOVED:
            raise not_followed(session, closed.reason) from closed


def _report(name: str, follower: Follower, comparison: Comparison) -> Report:
    counters = follower.counters
    return Report(
        session=follower.state.scope.session_id,
        scope=name,
        comparison=comparison,
        revision=_decimal(follower.state.applied),
        rows=len(follower.rows()),
        gaps=counters.gaps,
        repairs=counters.repairs,
        resets=counters.resets,
        reads=counters.reads,
        behind_seconds=round(follower.longest_behind, 3),
    )


def _decimal(revision: int | None) -> str | None:
    return None if revision is None else str(revision)


def as_line(report: Report) -> str:
    """One JSON object: the report, and ids and field names (no contents) of what differs."""
    comparison = report.comparison
    fields = {name: value for name, value in asdict(report).items() if name != "comparison"}
    found = {
        "outcome": comparison.outcome.value,
        "source_revision": _decimal(comparison.revision),
        "missing": [{"entity": row.entity, "id": row.id} for row in comparison.difference.missing],
        "extra": [{"entity": row.entity, "id": row.id} for row in comparison.difference.extra],
        "differing": [
            {"entity": field.entity, "id": field.id, "field": field.field} for field in comparison.difference.differing
        ],
    }
    return orjson.dumps({**fields, **found}).decode()


def as_text(report: Report) -> str:
    """The report in a line, and what differs below it."""
    comparison = report.comparison
    line = (
        f"{comparison.outcome.value:<10}{report.session}  {report.scope:<9} revision {report.revision or '-'}  "
        f"rows {report.rows}  gaps {report.gaps}  repairs {report.repairs}  resets {report.resets}  "
        f"reads {report.reads}  longest behind {report.behind_seconds:.2f} s"
    )
    if report.good:
        return line
    source = "was not read" if comparison.revision is None else f"is at revision {comparison.revision}"
    return "\n".join([line, f"  the source {source}", *_difference_lines(comparison.difference)])


def _difference_lines(found: Difference) -> list[str]:
    missing = [f"  missing    {row.entity} {row.id}" for row in found.missing]
    extra = [f"  not there  {row.entity} {row.id}" for row in found.extra]
    differing = [
        f"  differs    {field.entity} {field.id} {field.field}: "
        f"source {_piece(field.expected)}, shown {_piece(field.shown)}"
        for field in found.differing
    ]
    return [line for lines in (missing, extra, differing) for line in _at_most(lines)]


def _at_most(lines: list[str]) -> list[str]:
    left = len(lines) - SHOWN_ROWS
    return lines if left <= 0 else [*lines[:SHOWN_ROWS], f"  … and {left} more"]


def _piece(value: str) -> str:
    text = repr(value)
    return text if len(text) <= VALUE_CHARACTERS else text[:VALUE_CHARACTERS] + "…"
