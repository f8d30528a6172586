"""How many connections a gateway takes."""

from contextlib import ExitStack

import pytest

from services.gateway.websocket.limits import Limits
from shared.contracts.errors import RequestFailed


def refusal(limits: Limits, address: str, user: str) -> str | None:
    """The code with which one more is refused; `None` if it is not."""
    try:
        with limits.place(address, user):
            return None
    except RequestFailed as failed:
        return failed.failure.code if failed.failure.retryable else "refused for good"


def test_each_limit_is_kept_and_a_place_that_is_left_is_free() -> None:
    limits = Limits(everybody=4, address=3, user=2)
    with ExitStack() as held:
        held.enter_context(limits.place("a", "one"))
        with limits.place("a", "one"):
            assert refusal(limits, "b", "one") == "limit_exceeded", "the user has two"
            with limits.place("a", "two"):
                assert refusal(limits, "a", "three") == "limit_exceeded", "the address has three"
                with limits.place("b", "two"):
                    assert refusal(limits, "c", "three") == "unavailable", "the gateway has four"
                assert refusal(limits, "c", "three") is None
        assert refusal(limits, "a", "one") is None


def test_where_everybody_is_one_user_none_has_too_many() -> None:
    limits = Limits(everybody=10, address=10, user=None)
    with ExitStack() as held:
        for _ in range(10):
            held.enter_context(limits.place("a", "local"))
        assert refusal(limits, "a", "local") == "unavailable"


def test_a_connection_that_fails_leaves_its_place() -> None:
    limits = Limits(everybody=1, address=1, user=1)
    with pytest.raises(RuntimeError), limits.place("a", "one"):
        raise RuntimeError
    assert refusal(limits, "a", "one") is None
