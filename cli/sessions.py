"""`kandev-conversation sessions`: what there is to follow."""

import asyncio

import click
import orjson

from cli.counting import counted
from cli.errors import CommandFailed
from cli.importing import LISTED_SESSIONS, sentence
from cli.options import TASK, url_option
from cli.tail_text import Clock
from cli.target import target_token, target_url
from client.writers import ListedSession, WriteError, Writers

ATTEMPTS = 2
"""How often the gateway is asked: somebody waits at the terminal."""


@click.command()
@url_option
@click.option("--task", type=TASK, help="Only sessions of this task.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def sessions(url: str | None, task: str | None, as_json: bool) -> None:
    """List sessions, newest first: their ids, states, revisions and last changes.

    \b
    Example:
      kandev-conversation tail "$(kandev-conversation sessions --json | jq -r '.sessions[0].id')"
    """
    listed = asyncio.run(_listed(target_url(url), task))
    if as_json:
        rows = [{**row.model_dump(mode="json", exclude_none=True), "revision": str(row.revision)} for row in listed]
        click.echo(orjson.dumps({"sessions": rows, "total": len(rows)}, option=orjson.OPT_INDENT_2))
        return
    for line in as_lines(listed, Clock()):
        click.echo(line)
    if not listed:
        click.echo("No session yet. `kandev-conversation import` and `replay` make some.", err=True)
    if len(listed) >= LISTED_SESSIONS:
        click.echo(f"These are the newest {counted(len(listed), 'session')}; --task shows others.", err=True)


async def _listed(url: str, task: str | None) -> tuple[ListedSession, ...]:
    async with Writers(url, token=target_token(), attempts=ATTEMPTS) as routes:
        try:
            return await routes.sessions(task)
        except WriteError as error:
            raise CommandFailed(sentence(error)) from None


def as_lines(listed: tuple[ListedSession, ...], clock: Clock) -> list[str]:
    """A line for each session, the id first, in columns."""
    cells = [
        (row.id, row.state, f"revision {row.revision}", f"changed {clock.text(row.updated_at)}", f"task {row.task_id}")
        for row in listed
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
