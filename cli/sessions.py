"""`kandev-conversation sessions`: what there is to follow."""

import asyncio
from collections.abc import Mapping

import click
import orjson

from cli.counting import counted
from cli.errors import CommandFailed
from cli.importing import LISTED_SESSIONS, sentence
from cli.options import TASK, url_option
from cli.tables import table
from cli.tail_text import Clock, one_line
from cli.target import target_token, target_url
from client.writers import ListedSession, WriteError, Writers

ATTEMPTS = 2
"""How often the gateway is asked: somebody waits at the terminal."""

TITLE_CHARACTERS = 60
"""Longest piece of a task's title on a line."""


@click.command()
@url_option
@click.option("--task", type=TASK, help="Only sessions of this task.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def sessions(url: str | None, task: str | None, as_json: bool) -> None:
    """List sessions, newest first: their ids, states, revisions, when they started, and their tasks.

    \b
    Example:
      kandev-conversation tail "$(kandev-conversation sessions --json | jq -r '.sessions[0].id')"
    """
    listed, titles = asyncio.run(_listed(target_url(url), task))
    if as_json:
        rows = [_as_json(row, titles.get(row.task_id)) for row in listed]
        click.echo(orjson.dumps({"sessions": rows, "total": len(rows)}, option=orjson.OPT_INDENT_2))
        return
    for line in as_lines(listed, titles, Clock()):
        click.echo(line)
    if not listed and task is None:
        click.echo("No session yet. `kandev-conversation import` and `replay` make some.", err=True)
    elif not listed:
        click.echo(f"No session of the task {task}, or they are not yours to read.", err=True)
    if len(listed) >= LISTED_SESSIONS:
        click.echo(f"These are the newest {counted(len(listed), 'session')}; --task shows others.", err=True)


async def _listed(url: str, task: str | None) -> tuple[tuple[ListedSession, ...], Mapping[str, str]]:
    async with Writers(url, token=target_token(), attempts=ATTEMPTS) as routes:
        try:
            return await routes.sessions(task), await routes.task_titles()
        except WriteError as error:
            raise CommandFailed(sentence(error)) from None


def as_lines(listed: tuple[ListedSession, ...], titles: Mapping[str, str], clock: Clock) -> list[str]:
    """A line for each session, the id first, in columns. `titles`: of tasks, by id, those that are known."""
    rows = [
        (
            row.id,
            row.state,
            str(row.revision),
            "" if row.started_at is None else clock.text(row.started_at),
            row.task_id,
            one_line(titles.get(row.task_id, ""), TITLE_CHARACTERS),
        )
        for row in listed
    ]
    return table(("SESSION", "STATE", "REVISION", "STARTED", "TASK", "TITLE"), rows)


def _as_json(row: ListedSession, title: str | None) -> dict[str, object]:
    told = {**row.model_dump(mode="json", exclude_none=True), "revision": str(row.revision)}
    return told if title is None else {**told, "task_title": title}
