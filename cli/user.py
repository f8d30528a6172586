"""`kandev-conversation user`: accounts and their access tokens, in the database itself."""

from collections.abc import Mapping
from types import MappingProxyType

import click

from cli.lazy import Entry, LazyGroup

COMMANDS: Mapping[str, Entry] = MappingProxyType(
    {
        "add": Entry("cli.user_accounts", "add", "Add an account; its password is asked for."),
        "list": Entry("cli.user_accounts", "list_", "List every account."),
        "disable": Entry("cli.user_accounts", "disable", "Keep an account from being used."),
        "enable": Entry("cli.user_accounts", "enable", "Let a disabled account be used again."),
        "promote": Entry("cli.user_accounts", "promote", "Make an account an administrator."),
        "demote": Entry("cli.user_accounts", "demote", "Make an administrator an ordinary user."),
        "password": Entry("cli.user_accounts", "password", "Give an account another password."),
        "token": Entry("cli.user_tokens", "token", "Make an access token and print it once."),
        "tokens": Entry("cli.user_tokens", "tokens", "List an account's access tokens."),
        "revoke": Entry("cli.user_tokens", "revoke", "End an access token."),
    }
)


@click.command(cls=LazyGroup, entries=COMMANDS)
def user() -> None:
    """Accounts and access tokens, for gateways that run with KANDEV_AUTH=enabled.

    They work on the database (KANDEV_DATABASE_URL, else the stack that runs here), so that the first administrator
    can be made before anybody can sign in. Running gateways act on a change within five seconds.

    \b
    Example:
      kandev-conversation user add ann --admin
      export KANDEV_TOKEN="$(kandev-conversation user token ann --name laptop)"
    """
