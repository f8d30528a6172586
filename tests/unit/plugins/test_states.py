"""Which state of a plugin may follow which, and what an upgrade keeps."""

from itertools import product
from typing import Any, get_args

import pytest

from services.gateway.plugins.lifecycle import carried
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


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


PLAIN, SECRET = {"type": "string"}, {"type": "string", "format": "password"}


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        (schema(a=PLAIN), schema(a=PLAIN), True),
        (schema(a=SECRET), schema(a=SECRET), True),
        (schema(a=PLAIN), schema(a=SECRET), True),
        (schema(a=SECRET), schema(a=PLAIN), False),
        (schema(a=PLAIN), schema(b=PLAIN), False),
        (schema(a=SECRET), None, False),
        (None, schema(a=PLAIN), True),
        (
            schema(a={"type": "object", "properties": {"deep": SECRET}}),
            schema(a={"type": "object", "properties": {"deep": PLAIN}}),
            False,
        ),
    ],
)
def test_settings_that_an_upgrade_keeps(before: Any, after: Any, kept: bool) -> None:
    config = {"a": {"deep": "value"} if "deep" in str(before) else "value"}
    assert carried(before, after, config) == (config if kept else {})
