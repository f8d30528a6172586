"""`kandev-conversation import`: recorded transcripts become conversations."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path

import click
import orjson
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from cli.counting import counted
from cli.errors import CommandFailed
from cli.importing import DEFAULT_WORKSPACE, Destination, Outcome, SessionImport, sentence
from cli.options import TITLE, url_option, workspace_option
from cli.skips import report_skips
from cli.target import target_token, target_url
from cli.transcripts.contents import Transcript
from cli.transcripts.plan import FilePlan
from cli.workspaces import chosen_workspace
from client.writers import WriteError, Writers

ALL_SKIPS = "; --json names them all"

SHOWN_KEPT = 20
"""Lines that are named where what is stored differs from them and stays."""


@click.command("import")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@url_option
@workspace_option(DEFAULT_WORKSPACE)
@click.option(
    "--task",
    type=TITLE,
    help="Title of one task for all sessions. [default: a task each, named after its first prompt]",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output: sessions, counts, lines.")
def import_(files: tuple[Path, ...], url: str | None, workspace: str | None, task: str | None, as_json: bool) -> None:
    """Import coding-agent transcripts (JSON lines).

    Every session in the files becomes a conversation: prompts, replies, thinking and tool uses with their results.
    A line that cannot be used is named on standard error and left out; the exit code stays 0.

    Importing a file again only adds and completes: what an interruption left out, replies and results that the file
    holds by now. What is stored otherwise than the file says, by an edit or from a longer copy of it, stays as it is,
    and the lines that say something else are named on standard error.

    \b
    Example:
      kandev-conversation import ~/transcripts/*.jsonl
    """
    with ExitStack() as opened:
        # All files are read before anything is written: one that is no transcript leaves nothing half done.
        transcripts = [opened.enter_context(Transcript(path)) for path in files]
        for transcript in transcripts:
            report_skips(transcript.path, transcript.plan.skipped, ALL_SKIPS)
        outcomes = asyncio.run(_import(target_url(url), transcripts, workspace, task, quiet=as_json))
        for transcript, outcome in outcomes:
            report_skips(transcript.path, outcome.refused, ALL_SKIPS)
            if outcome.kept:
                click.echo(kept_text(transcript.path, outcome.kept), err=True)
        if as_json:
            click.echo(orjson.dumps(_as_json(transcripts, outcomes), option=orjson.OPT_INDENT_2))
        else:
            click.echo(_as_text(transcripts, outcomes))


async def _import(
    url: str, transcripts: Sequence[Transcript], workspace: str | None, task: str | None, *, quiet: bool
) -> list[tuple[Transcript, Outcome]]:
    total = sum(len(session.messages) for transcript in transcripts for session in transcript.plan.sessions)
    async with Writers(url, token=target_token()) as writers:
        try:
            await writers.reach()
            destination = Destination(await chosen_workspace(writers, workspace, DEFAULT_WORKSPACE), task)
        except WriteError as error:
            raise CommandFailed(sentence(error)) from None
        with _progress(total, quiet=quiet) as on_message:
            imports = [
                (transcript, SessionImport(writers, transcript, session, destination, on_message))
                for transcript in transcripts
                for session in transcript.plan.sessions
            ]
            for _, one in imports:
                await one.admit()
            return [(transcript, await one.run()) for transcript, one in imports]


@contextmanager
def _progress(total: int, *, quiet: bool) -> Iterator[Callable[[], None]]:
    console = Console(stderr=True)
    columns = (TextColumn("Importing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=quiet or not console.is_terminal, transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda: bar.advance(task)


def _as_text(transcripts: Sequence[Transcript], outcomes: Sequence[tuple[Transcript, Outcome]]) -> str:
    lines = []
    for transcript in transcripts:
        plan = transcript.plan
        lines.append(f"{transcript.path}: {counted(plan.lines, 'line')}, {counted(len(plan.sessions), 'session')}")
        lines.append(f"  messages    {_counts(plan.message_types) or 'none'}")
        lines.append(f"  not stored  {_counts(plan.not_stored) or 'none'}")
        for outcome in (outcome for of, outcome in outcomes if of is transcript):
            lines.append(f"  session     {outcome.session_id}  {outcome.title}")
            lines.append(
                f"              {counted(outcome.messages, 'message')}, {counted(outcome.turns, 'turn')}; "
                f"{counted(outcome.created, 'row')} new, "
                f"{outcome.updated:,} completed, {len(outcome.kept):,} left as stored, {len(outcome.refused):,} refused"
            )
    if outcomes:
        lines.append(f"Follow it: kandev-conversation tail {outcomes[-1][1].session_id}")
    return "\n".join(lines)


def kept_text(path: Path, lines: Sequence[int]) -> str:
    """Which lines say something else than what is stored and stays."""
    named = sorted(set(lines))
    more = f" and {len(named) - SHOWN_KEPT:,} more{ALL_SKIPS}" if len(named) > SHOWN_KEPT else ""
    shown = ", ".join(map(str, named[:SHOWN_KEPT]))
    return f"{path}: what is stored differs from {'line' if len(named) == 1 else 'lines'} {shown}{more}; left as it is"


def _counts(counts: object) -> str:
    items = sorted(dict(counts).items()) if isinstance(counts, dict) else ()
    return ", ".join(f"{count:,} {kind}" for kind, count in items)


def _as_json(transcripts: Sequence[Transcript], outcomes: Sequence[tuple[Transcript, Outcome]]) -> dict[str, object]:
    return {
        "sessions": [{"file": str(transcript.path), **asdict(outcome)} for transcript, outcome in outcomes],
        "files": [_file_json(transcript.path, transcript.plan) for transcript in transcripts],
    }


def _file_json(path: Path, plan: FilePlan) -> dict[str, object]:
    return {
        "file": str(path),
        "lines": plan.lines,
        "messages": dict(plan.message_types),
        "not_stored": dict(plan.not_stored),
        "skipped": [asdict(skip) for skip in plan.skipped],
    }
