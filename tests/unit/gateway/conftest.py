"""What tests of scopes start from."""

from collections.abc import AsyncIterator

import pytest

from tests.unit.gateway.in_memory import Gateway


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    gateway = Gateway()
    await gateway.hub.learn_epoch()
    yield gateway
    await gateway.hub.stop()
