"""What an audience's counts are."""

import orjson

from shared.contracts.wire import ClientMessage, Subscribe
from tests.bench.audience import Heard, subscription
from tests.bench.fanout import VIEWS


def test_counts_are_added_and_taken_from_each_other_field_by_field() -> None:
    early, late = Heard(1, 20, 3, 4, 0), Heard(10, 200, 30, 40, 5)
    assert late - early == Heard(9, 180, 27, 36, 5)
    assert (late - early) + early == late


def test_every_view_is_asked_for_as_the_gateway_expects_it() -> None:
    for scope, view in enumerate(VIEWS):
        message = ClientMessage.model_validate(orjson.loads(subscription(scope, "crowd-1", view)))
        wanted = Subscribe.model_validate(message.payload)
        assert (wanted.scope_id, wanted.session_id) == (str(scope), "crowd-1")
    assert len({subscription(0, "crowd-1", view) for view in VIEWS}) == len(VIEWS)
