"""How many connections a gateway takes."""

from contextlib import ExitStack

import pytest

from services.gateway.websocket import limits as limits_module
from services.gateway.websocket.limits import Limits, Place
from shared.contracts.errors import RequestFailed


def refusal(limits: Limits, address: str, user: str) -> str | None:
    """The code with which one more is refused; `None` if it is not."""
    try:
        with limits.place(address, user):
            return None
    except RequestFailed as failed:
        return failed.failure.code if failed.failure.retryable else "refused for good"


def test_each_limit_is_kept_and_a_place_that_is_left_is_free() -> None:
    limits = Limits(everybody=4, address=3, user=2, scopes=1)
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
    limits = Limits(everybody=10, address=10, user=None, scopes=1)
    with ExitStack() as held:
        for _ in range(10):
            held.enter_context(limits.place("a", "local"))
        assert refusal(limits, "a", "local") == "unavailable"


def test_a_connection_that_fails_leaves_its_place() -> None:
    limits = Limits(everybody=1, address=1, user=1, scopes=1)
    with pytest.raises(RuntimeError), limits.place("a", "one"):
        raise RuntimeError
    assert refusal(limits, "a", "one") is None


class TestScopes:
    def refusal(self, place: Place) -> str:
        with pytest.raises(RequestFailed) as refused:
            place.take_scope()
        assert refused.value.failure.code == "limit_exceeded"
        return refused.value.failure.message

    def test_a_user_has_so_many_on_all_connections_together(self) -> None:
        limits = Limits(everybody=10, address=10, user=10, scopes=3)
        with limits.place("a", "one") as first, limits.place("b", "one") as second, limits.place("a", "two") as other:
            for place in (first, first, second):
                place.take_scope()
            assert "on all connections together" in self.refusal(first)
            assert "on all connections together" in self.refusal(second)
            other.take_scope()
            second.leave_scope()
            first.take_scope()
        assert limits.scopes == 0

    def test_without_accounts_an_address_has_so_many(self) -> None:
        limits = Limits(everybody=10, address=10, user=None, scopes=1)
        with limits.place("a", "local") as first, limits.place("a", "local") as second:
            first.take_scope()
            self.refusal(second)
            with limits.place("b", "local") as other:
                other.take_scope()

    def test_a_connection_has_so_many(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(limits_module, "MAX_SCOPES", 2)
        limits = Limits(everybody=10, address=10, user=10, scopes=100)
        with limits.place("a", "one") as place, limits.place("a", "one") as another:
            place.take_scope()
            place.take_scope()
            assert "a connection may have 2" in self.refusal(place)
            another.take_scope()

    def test_a_connection_that_ends_leaves_its_scopes(self) -> None:
        limits = Limits(everybody=10, address=10, user=10, scopes=2)
        with limits.place("a", "one") as place:
            place.take_scope()
            place.take_scope()
        assert limits.scopes == 0
