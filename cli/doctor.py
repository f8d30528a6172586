"""`kandev-conversation doctor`: looks at every part and says what to do about what is wrong."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict

import click
import orjson
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli.configuration import load_settings, variables_given
from cli.database import database_url, stack_here
from cli.diagnosis.gather import gather
from cli.diagnosis.judge import Finding, State, judge, worst
from cli.target import target_url

FOUND = 1
"""Exit code when something is wrong."""
_COLOURS = {State.OK: "green", State.WARN: "yellow", State.FAIL: "red"}


@click.command()
@click.option("--url", help="The gateway. [default: the stack that runs here, else http://127.0.0.1:8080]")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def doctor(url: str | None, as_json: bool) -> None:
    """Look at the database, Redis and the gateway, and say what to do about what is wrong.

    Nothing is changed. Exit code 1 when something fails; warnings alone are 0.
    """
    findings = judge(asyncio.run(gather(database_url(), _redis_url(), target_url(url))))
    state = worst(findings)
    if as_json:
        click.echo(orjson.dumps({"state": state, "findings": list(map(asdict, findings))}, option=orjson.OPT_INDENT_2))
    else:
        Console().print(_table(findings))
    if state is State.FAIL:
        raise SystemExit(FOUND)


def _redis_url() -> str:
    settings = load_settings()
    stack = None if variables_given("redis_url") else stack_here(settings)
    return settings.redis_url.get_secret_value() if stack is None else stack.redis_url


def _table(findings: Sequence[Finding]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("Part", "Aspect", "State", "Found", "What to do"):
        table.add_column(title, overflow="fold")
    for one in findings:
        state = Text(one.state.value, style=_COLOURS[one.state])
        table.add_row(one.part, one.aspect, state, Text(one.found), Text(one.advice))
    return table
