"""The states of an installed plugin, and which may follow which (pure)."""

from collections.abc import Mapping
from typing import Literal

Status = Literal["registered", "active", "disabled", "error"]
"""`registered`: stored and not yet in use; `error`: its package cannot be served here, and the record says why."""

FOLLOWING: Mapping[Status, frozenset[Status]] = {
    "registered": frozenset({"active", "error"}),
    "active": frozenset({"disabled", "error"}),
    "error": frozenset({"active", "disabled"}),
    "disabled": frozenset({"active", "error"}),
}


def may_become(status: Status, wanted: Status) -> bool:
    """Whether a plugin in one state may be brought to another. A state never follows itself."""
    return wanted in FOLLOWING[status]


def after_upgrade(status: Status) -> Status:
    """State of a plugin whose package was replaced by a good one: what was switched off stays so."""
    return "disabled" if status == "disabled" else "active"
