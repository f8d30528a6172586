"""Groups of commands of which each is imported when it is used, so that the others start quickly and without it."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click


@dataclass(frozen=True, slots=True)
class Entry:
    """A subcommand: where it is, and what the group's help says about it."""

    module: str
    attribute: str
    help: str


class LazyGroup(click.Group):
    """A group whose subcommands are the entries, in their order."""

    # Any: click's own options, passed on unread.
    def __init__(self, *, entries: Mapping[str, Entry], **options: Any) -> None:
        super().__init__(**options)
        self._entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The names, in the order of the entries."""
        return list(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """The command, imported now; `None` if there is no such entry."""
        entry = self._entries.get(cmd_name)
        if entry is None:
            return None
        command = getattr(importlib.import_module(entry.module), entry.attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{entry.module}.{entry.attribute} is not a command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        """Writes the list for `--help` from the entries alone: nothing is imported for it."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in self._entries.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it; a name that is not there is answered with those that are."""
        if args and args[0] not in self._entries and not args[0].startswith("-"):
            ctx.fail(f"There is no command {args[0]!r}. Commands: {', '.join(self._entries)}.")
        return super().resolve_command(ctx, args)
