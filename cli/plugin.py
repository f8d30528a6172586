"""`kandev-conversation plugin`: packages of plugins, and the plugins of a gateway."""

from collections.abc import Mapping
from types import MappingProxyType

import click

from cli.lazy import Entry, LazyGroup

COMMANDS: Mapping[str, Entry] = MappingProxyType(
    {
        "pack": Entry("cli.plugin_pack", "pack", "Make a package of a folder."),
        "check": Entry("cli.plugin_pack", "check", "Say whether a package can be installed."),
        "install": Entry("cli.plugin_manage", "install", "Install a plugin, or another version of it."),
        "list": Entry("cli.plugin_manage", "list_", "List the installed plugins."),
        "enable": Entry("cli.plugin_manage", "enable", "Make a plugin active."),
        "disable": Entry("cli.plugin_manage", "disable", "Take a plugin out of use."),
        "remove": Entry("cli.plugin_manage", "remove", "Remove a plugin with everything of it."),
        "token": Entry("cli.plugin_manage", "token", "Make a token for a plugin's own process."),
        "config": Entry("cli.plugin_manage", "config", "Show or change a plugin's settings."),
    }
)


@click.command(cls=LazyGroup, entries=COMMANDS)
def plugin() -> None:
    """Packages of plugins, and the plugins of a gateway.

    \b
    Example:
      kandev-conversation plugin pack my-plugin/
      kandev-conversation plugin check my-plugin-1.0.0.tar.gz
      kandev-conversation plugin install my-plugin-1.0.0.tar.gz

    Packing and checking need no gateway. The others ask the one that --url or KANDEV_URL names, as the administrator
    whose access token KANDEV_TOKEN holds.
    """
