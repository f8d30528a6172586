"""`kandev-conversation plugin`: packages of plugins, and the plugins of a gateway."""

from collections.abc import Mapping
from types import MappingProxyType

import click

from cli.lazy import Entry, LazyGroup

COMMANDS: Mapping[str, Entry] = MappingProxyType(
    {
        "pack": Entry("cli.plugin_pack", "pack", "Make a package of a folder."),
        "check": Entry("cli.plugin_pack", "check", "Say whether a package can be installed."),
    }
)


@click.command(cls=LazyGroup, entries=COMMANDS)
def plugin() -> None:
    """Packages of plugins, and the plugins of a gateway.

    \b
    Example:
      kandev-conversation plugin pack my-plugin/
      kandev-conversation plugin check my-plugin-1.0.0.tar.gz
    """
