"""Arguments and options that several commands take, checked before anything is done with them."""

import math
from collections.abc import Callable
from typing import TypeVar

import click
from pydantic import TypeAdapter, ValidationError

from cli.errors import CommandFailed
from shared.contracts.base import Id

_ID: TypeAdapter[str] = TypeAdapter(Id)

Command = TypeVar("Command", bound=Callable[..., object])


def url_option(command: Command) -> Command:
    """The option that names the gateway; see `cli.target`."""
    return click.option(
        "--url",
        help="The gateway. [default: KANDEV_URL, else the stack that runs here, else http://127.0.0.1:8080]",
    )(command)


def workspace_option(default: str) -> Callable[[Command], Command]:
    """The option that says where conversations go; see `cli.workspaces`."""
    return click.option(
        "--workspace",
        type=TITLE,
        help="Name of a workspace of your own, made if there is none; or the id of one that you see. "
        f"[default: {default}]",
    )


class Identifier(click.ParamType[str]):
    """An id as clients make them. One that cannot exist is refused: nothing could be found by it."""

    name = "id"

    def __init__(self, what: str) -> None:
        self._what = what

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ARG002 - click's signature
        """The id. Raises `CommandFailed`."""
        try:
            return _ID.validate_python(value)
        except ValidationError:
            raise CommandFailed(
                f"No {self._what} has such an id: expected 1 to 255 characters, none of them a control character."
            ) from None


class Title(click.ParamType[str]):
    """A name for people: some text, in one line."""

    name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name."""
        if not value.strip() or not value.isprintable():
            self.fail("expected a name in one line, not an empty one.", param, ctx)
        return value


class Finite(click.FloatRange):
    """A number that is one: neither `nan` nor `inf`."""

    name = "number"

    def convert(self, value: float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail("expected a finite number.", param, ctx)
        return number


SESSION = Identifier("session")
TASK = Identifier("task")
TITLE = Title()
