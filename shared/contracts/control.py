"""What one gateway tells all others: something was changed that cached decisions depend on."""

from typing import Literal

from shared.contracts.base import Contract


class AccessChanged(Contract):
    """Cached access decisions that concern this session, workspace or user are no longer to be trusted. Empty strings:
    any.
    """

    kind: Literal["access_changed"] = "access_changed"
    user: str = ""
    workspace_id: str = ""
    session_id: str = ""


Control = AccessChanged


class ControlEntry(Contract):
    """One entry of `conversation:control`. `origin` names the gateway process that made the change."""

    origin: str
    control: Control
