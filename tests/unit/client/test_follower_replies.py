"""What a reply to a subscribe request says."""

from typing import Any

import pytest

from client.events import Subscribed, SubscribeRefused
from client.follower import read_reply
from client.state import Scope

SCOPE = Scope("session", "scope")
OPENED = {
    "success": True,
    "protocol_version": 2,
    "scope_id": "scope",
    "session_id": "session",
    "epoch": "e",
    "revision": "17",
}
FAILED = SubscribeRefused("upstream_failure", retryable=True)


def test_an_open_scope() -> None:
    assert read_reply(OPENED, SCOPE) == Subscribed("e", 17)


@pytest.mark.parametrize(
    "change",
    [
        {"protocol_version": 3},
        {"scope_id": "another"},
        {"session_id": "another"},
        {"epoch": ""},
        {"revision": "017"},
        {"revision": 17},
        {"success": "yes"},
    ],
)
def test_a_reply_that_cannot_be_used_is_a_failure_to_retry(change: dict[str, Any]) -> None:
    assert read_reply({**OPENED, **change}, SCOPE) == FAILED


def test_no_reply_is_a_failure_to_retry() -> None:
    assert read_reply(None, SCOPE) == FAILED


@pytest.mark.parametrize(("code", "retryable"), [("not_found", False), ("generation_superseded", True)])
def test_a_refusal_is_taken_as_it_is(code: Any, retryable: bool) -> None:
    error = {"code": code, "message": "no", "retryable": retryable}
    assert read_reply({"success": False, "error": error}, SCOPE) == SubscribeRefused(code, retryable)


@pytest.mark.parametrize(("resumed", "expected"), [(True, True), (False, False), (None, False)])
def test_a_scope_that_goes_on_where_it_was(resumed: bool | None, expected: bool) -> None:
    assert read_reply({**OPENED, "resumed": resumed}, SCOPE) == Subscribed("e", 17, resumed=expected)
