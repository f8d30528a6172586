"""What one gateway tells all others: something was changed that their scopes depend on."""

from typing import Literal

from shared.contracts.base import Contract


class AccessChanged(Contract):
    """A session was deleted, or who may read it has changed: whoever follows it looks at once, tracker or not."""

    kind: Literal["access_changed"] = "access_changed"
    session_id: str


class ControlEntry(Contract):
    """One entry of `conversation:control`. `origin` names the gateway process that made the change."""

    origin: str
    control: AccessChanged
