"""What a command says about the lines of a transcript that it leaves out."""

from collections.abc import Sequence
from pathlib import Path

import click

from cli.counting import counted
from cli.transcripts.plan import Skipped

SHOWN_SKIPS = 100
"""Left-out lines named on the terminal for one file."""


def report_skips(path: Path, skipped: Sequence[Skipped], where_all: str = "") -> None:
    """Names them on standard error. `where_all`: how to see those beyond the most that are shown."""
    for skip in skipped[:SHOWN_SKIPS]:
        click.echo(f"{path}:{skip.line}: {skip.reason}; skipped", err=True)
    more = len(skipped) - SHOWN_SKIPS
    if more > 0:
        click.echo(f"{path}: {counted(more, 'more line', 'more lines')} skipped{where_all}", err=True)
