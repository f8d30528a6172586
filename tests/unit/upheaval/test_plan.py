"""What an installation goes through, and how a load is spread."""

import pytest

from tests.upheaval.plan import Upheaval, chosen, plan
from tests.upheaval.proof import Load, orders


def test_every_service_is_restarted_and_killed_and_what_is_planned_comes_at_the_end() -> None:
    names = [upheaval.name for upheaval in plan(["gateway", "redis"], upgraded=["gateway"])]
    assert names == [
        *("restart:gateway", "kill:gateway", "restart:redis", "kill:redis"),
        *("flush:redis", "roll:gateway", "upgrade:gateway"),
    ]


def test_upheavals_are_chosen_by_name_in_that_order() -> None:
    every = plan(["gateway", "redis"])
    assert chosen(every, []) == every
    assert chosen(every, ["roll:gateway", "kill:redis"]) == (Upheaval("roll", "gateway"), Upheaval("kill", "redis"))
    with pytest.raises(ValueError, match="not flush:gateway"):
        chosen(every, ["kill:redis", "flush:gateway"])


def test_a_load_is_spread_so_that_nobody_is_left_out() -> None:
    spread = orders(Load(clients=11, sessions=5, processes=3, rate=30.0, patience=1.0), ["http://a", "http://b"], "t")
    assert [order.clients for order in spread] == [4, 4, 3]
    assert [order.sessions for order in spread] == [2, 2, 1]
    assert [order.rate for order in spread] == [10.0, 10.0, 10.0]
    assert {(order.urls, order.token) for order in spread} == {(("http://a", "http://b"), "t")}


def test_no_process_is_without_a_session() -> None:
    spread = orders(Load(clients=9, sessions=2, processes=4, rate=10.0, patience=1.0), ["http://a"], None)
    assert [(order.clients, order.sessions) for order in spread] == [(5, 1), (4, 1)]
