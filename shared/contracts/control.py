"""What one gateway tells all others: something was changed that their connections, scopes or caches depend on.

An entry names what changed and never what it became: whoever hears it reads for itself. Losing one delays its effect by
at most one check period.
"""

from typing import Annotated, Literal

from pydantic import Field

from shared.contracts.base import Contract


class AccessChanged(Contract):
    """A session was deleted, or who may read it has changed: whoever follows it looks at once, tracker or not."""

    kind: Literal["access_changed"] = "access_changed"
    session_id: str


class MembershipChanged(Contract):
    """A workspace's owner or members changed: every scope of these users is checked at once.

    `users` empty: of everyone, as where a workspace that all could see has an owner now.
    """

    kind: Literal["membership_changed"] = "membership_changed"
    workspace_id: str
    users: tuple[str, ...] = ()


class CredentialsEnded(Contract):
    """A user signed out, was disabled, or lost a token: connections that these credentials opened are closed.

    `credentials` empty: every one of the user's.
    """

    kind: Literal["credentials_ended"] = "credentials_ended"
    user: str
    credentials: tuple[str, ...] = ()


class AccountChanged(Contract):
    """A user may do more or less than before, or is named otherwise: what is kept of them is asked for again."""

    kind: Literal["account_changed"] = "account_changed"
    user: str


class PluginChanged(Contract):
    """A plugin was installed, upgraded, enabled, disabled, configured or removed."""

    kind: Literal["plugin_changed"] = "plugin_changed"
    plugin_id: str


class UserStateChanged(Contract):
    """A plugin's user state changed; told to that user's connections as `plugin.user-state.updated`."""

    kind: Literal["user_state_changed"] = "user_state_changed"
    user: str
    plugin_id: str
    scope: str
    scope_id: str
    key: str
    updated_at: str
    writer_id: str | None = None
    deleted: bool = False


Change = Annotated[
    AccessChanged | MembershipChanged | CredentialsEnded | AccountChanged | PluginChanged | UserStateChanged,
    Field(discriminator="kind"),
]


class ControlEntry(Contract):
    """One entry of `conversation:control`. `origin` names the gateway process that made the change."""

    origin: str
    control: Change
