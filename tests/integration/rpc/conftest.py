"""The three services of a module, plugins with tokens, and channels to Host RPC."""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import grpc
import pytest
import pytest_asyncio
from kandev_plugin_sdk import Host

from tests.integration.gateway.conftest import shared_stack, stack
from tests.integration.rpc.calls import Calls, Plugin
from tests.support.plugins import install
from tests.support.stack import Stack

__all__ = ["shared_stack", "stack"]

_numbers = itertools.count(1)

MakePlugin = Callable[..., Awaitable[Plugin]]


async def new_plugin(
    stack: Stack, reads: Sequence[str] = ("messages",), gateways: Sequence[str] = ("gateway",)
) -> Plugin:
    """A plugin that these gateways know as active, with a token."""
    name = f"rpc{next(_numbers)}"
    await install(stack, name, reads=reads, gateways=gateways)
    status, body = await stack.call("POST", f"/api/plugins/{name}/token")
    assert status == 200, body
    return Plugin(name, str(body["token"]))


@pytest.fixture
async def make_plugin(shared_stack: Stack) -> MakePlugin:
    """Makes plugins of `shared_stack`."""
    return lambda reads=("messages",): new_plugin(shared_stack, reads)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def plugin(shared_stack: Stack) -> Plugin:
    """A plugin of the module's that may read messages."""
    return await new_plugin(shared_stack)


@pytest.fixture
async def channel(shared_stack: Stack) -> AsyncIterator[grpc.aio.Channel]:
    """A stock channel to the gateway of `shared_stack`, which takes the longest response."""
    options = [("grpc.max_receive_message_length", 17 << 20)]
    async with grpc.aio.insecure_channel(shared_stack.rpc_of(), options=options) as opened:
        yield opened


@pytest.fixture
def calls(channel: grpc.aio.Channel, plugin: Plugin) -> Calls:
    """Calls of `plugin`."""
    return Calls(channel, plugin.token)


@pytest.fixture
async def host(shared_stack: Stack, plugin: Plugin) -> AsyncIterator[Host]:
    """The SDK's connection of `plugin`."""
    async with Host(shared_stack.rpc_of(), plugin.token) as opened:
        yield opened
