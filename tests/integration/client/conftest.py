"""The server of the wire, and a connection to it that wastes no time on random delays."""

from collections.abc import AsyncIterator

import pytest

from client.connection import Connection
from tests.integration.client.wire_server import WireServer


def no_delay() -> float:
    return 0.0


@pytest.fixture
async def server() -> AsyncIterator[WireServer]:
    server = WireServer()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def connection(server: WireServer) -> AsyncIterator[Connection]:
    async with Connection(server.url, chance=no_delay) as connection:
        yield connection
