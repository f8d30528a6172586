"""Which state of a plugin may follow which."""

from itertools import product
from typing import get_args

import pytest

from services.gateway.plugins.states import Status, after_upgrade, may_become

STATES: tuple[Status, ...] = get_args(Status)
ALLOWED = {
    ("registered", "active"),
    ("registered", "error"),
    ("active", "disabled"),
    ("active", "error"),
    ("error", "active"),
    ("error", "disabled"),
    ("disabled", "active"),
    ("disabled", "error"),
}


def test_the_transitions_and_no_others() -> None:
    assert {pair for pair in product(STATES, STATES) if may_become(*pair)} == ALLOWED


@pytest.mark.parametrize(
    ("before", "after"),
    [("registered", "active"), ("active", "active"), ("error", "active"), ("disabled", "disabled")],
)
def test_an_upgrade_leaves_off_what_was_off(before: Status, after: Status) -> None:
    assert after_upgrade(before) == after
