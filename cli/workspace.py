"""`kandev-conversation workspace`: who sees which conversations, in the database itself."""

from collections.abc import Mapping
from types import MappingProxyType

import click

from cli.lazy import Entry, LazyGroup

COMMANDS: Mapping[str, Entry] = MappingProxyType(
    {
        "list": Entry("cli.workspace_access", "list_", "List every workspace with its owner and members."),
        "owner": Entry("cli.workspace_access", "owner", "Give a workspace to a user, or to everyone."),
        "share": Entry("cli.workspace_access", "share", "Make a user a member."),
        "unshare": Entry("cli.workspace_access", "unshare", "End a user's membership."),
    }
)


@click.command(cls=LazyGroup, entries=COMMANDS)
def workspace() -> None:
    """Who sees which conversations, for gateways that run with KANDEV_AUTH=enabled.

    A workspace is seen by its owner and its members; one without an owner by everyone, as are all that were made
    before authentication was enabled. WORKSPACE and USER are names or ids; where an id fits, it is meant.

    They work on the database (KANDEV_DATABASE_URL, else the stack that runs here). Running gateways act on a change
    within five seconds.

    \b
    Example:
      kandev-conversation workspace list
      kandev-conversation workspace owner "Imported transcripts" ann
      kandev-conversation workspace share "Imported transcripts" bob
    """
