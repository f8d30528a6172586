"""`kandev-conversation doctor`: looks at every part and says what to do about what is wrong."""

import asyncio
import os
import shutil
import sys
import textwrap
from dataclasses import asdict

import click
import orjson

from cli.configuration import load_settings, variables_given
from cli.database import database_url, stack_here
from cli.diagnosis.gather import gather
from cli.diagnosis.judge import Finding, State, judge, worst
from cli.options import url_option
from cli.settings import unknown_variables, warn_of_unknown
from cli.target import target_url
from shared.version import VERSION

FOUND = 1
"""Exit code when something is wrong."""

ASPECT_CHARACTERS = 21
ADVICE_INDENT = 6
LEAST_TEXT = 20
"""Characters of a line that text has at least, however narrow the terminal is."""

_COLOURS = {State.OK: "green", State.WARN: "yellow", State.FAIL: "red"}


@click.command()
@url_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def doctor(url: str | None, as_json: bool) -> None:
    """Look at the database, Redis, the processes that run and a gateway, and say what to do about what is wrong.

    Nothing is changed. Exit code 1 when something fails; warnings alone are 0.
    """
    warn_of_unknown(unknown_variables(os.environ))
    facts = asyncio.run(gather(database_url(), _redis_url(), target_url(url)))
    findings = judge(facts, VERSION)
    state = worst(findings)
    if as_json:
        click.echo(orjson.dumps({"state": state, "findings": list(map(asdict, findings))}, option=orjson.OPT_INDENT_2))
    else:
        click.echo("\n".join(map(_shown, findings)))
    if state is State.FAIL:
        raise SystemExit(FOUND)


def _redis_url() -> str:
    settings = load_settings()
    stack = None if variables_given("redis_url") else stack_here(settings)
    return settings.redis_url.get_secret_value() if stack is None else stack.redis_url


def paragraph(finding: Finding, width: int | None) -> str:
    """A finding: how it is, of which part, what was found, and below that what to do. `width` None: lines of any
    length; words are never broken.
    """
    head = f"{finding.state.value:<5} {finding.part:<9} {finding.aspect:<{ASPECT_CHARACTERS}} "
    first, *others = _wrapped(finding.found, len(head), width) or [""]
    return "\n".join([head + first.strip(), *others, *_wrapped(finding.advice, ADVICE_INDENT, width)]).rstrip()


def _wrapped(text: str, indent: int, width: int | None) -> list[str]:
    space = " " * indent
    if width is None:
        return [space + text] if text else []
    return textwrap.wrap(
        text,
        max(width, indent + LEAST_TEXT),
        initial_indent=space,
        subsequent_indent=space,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _shown(finding: Finding) -> str:
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    state = finding.state.value
    return click.style(state, fg=_COLOURS[finding.state]) + paragraph(finding, width).removeprefix(state)
