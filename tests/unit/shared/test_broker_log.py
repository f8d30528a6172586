"""FastStream logs through this process's own handlers, and nothing for each message."""

import logging
from collections.abc import Iterator

import pytest
from pydantic import SecretStr

from shared.broker.guarded import Subscription, open_broker


@pytest.fixture
def library() -> Iterator[logging.Logger]:
    """The library's logger as its import leaves it: with a handler of its own."""
    logger = logging.getLogger("faststream")
    kept = logger.handlers[:], logger.level, logger.propagate
    logger.handlers[:], logger.propagate = [logging.StreamHandler()], False
    logger.setLevel(logging.INFO)
    yield logger
    logger.handlers[:], logger.level, logger.propagate = kept


def test_its_lines_take_the_way_of_all_others(library: logging.Logger) -> None:
    broker = open_broker(SecretStr("redis://127.0.0.1:1"))
    assert (library.handlers, library.propagate) == ([], True)
    assert not library.isEnabledFor(broker.config.logger.log_level)
    assert library.isEnabledFor(logging.WARNING)


def test_a_subscription_is_not_copied_for_each_message() -> None:
    subscription = Subscription("stream")
    assert subscription.add_prefix("") is subscription
    assert subscription.add_prefix("one:").name == "one:stream"
    assert subscription.name == "stream"
