"""How the SDK goes from page to page, with a host that answers by script over a real channel."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import grpc
import pytest
from kandev_plugin_sdk import Host, InvalidArgument
from kandev_plugin_sdk._calls import SERVICE

from shared.host_rpc.generated import plugin_pb2 as wire
from tests.support.waiting import eventually

PAGES = 5


class ScriptedHost:
    """Answers a list of `PAGES` pages with two messages each. `fail_from`: the first page that is refused."""

    def __init__(self, fail_from: int = PAGES) -> None:
        self.asked: list[int] = []
        self._fail_from = fail_from

    async def list_messages(
        self, request: wire.ListMessagesRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> wire.ListMessagesResponse:
        """The page that the cursor names."""
        number = int(request.page.cursor or 0)
        self.asked.append(number)
        if number >= self._fail_from:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no")
        messages = [wire.Message(id=f"{number}-{each}", created_at="2026-11-30T10:00:00Z") for each in "ab"]
        more = number + 1 < PAGES
        info = wire.PageInfo(next_cursor=str(number + 1) if more else "", has_more=more)
        return wire.ListMessagesResponse(messages=messages, page_info=info)


Serve = Callable[[ScriptedHost], Any]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Serves a host and connects to it."""
    server = grpc.aio.server()
    hosts: list[Host] = []

    async def connected(scripted: ScriptedHost) -> Host:
        handler = grpc.unary_unary_rpc_method_handler(
            scripted.list_messages,
            request_deserializer=wire.ListMessagesRequest.FromString,
            response_serializer=wire.ListMessagesResponse.SerializeToString,
        )
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"ListMessages": handler}),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        host = await Host(f"127.0.0.1:{port}", "token").__aenter__()
        hosts.append(host)
        return host

    yield connected
    for host in hosts:
        await host.__aexit__(None, None, None)
    await server.stop(None)


async def test_all_pages_come_once_in_their_order(serve: Serve) -> None:
    scripted = ScriptedHost()
    host = await serve(scripted)
    found = [message.id async for message in host.messages().all()]
    assert found == [f"{number}-{each}" for number in range(PAGES) for each in "ab"]
    assert scripted.asked == list(range(PAGES))


async def test_the_next_page_is_asked_for_while_one_is_looked_at_and_no_other(serve: Serve) -> None:
    scripted = ScriptedHost()
    host = await serve(scripted)
    async with aclosing(host.messages().all()) as messages:
        assert (await anext(messages)).id == "0-a"
        await eventually(lambda: _count(scripted), lambda count: count == 2)
        assert (await anext(messages)).id == "0-b"
        # The second page has come; the third is asked for once somebody looks at the second.
        assert scripted.asked == [0, 1]


async def _count(scripted: ScriptedHost) -> int:
    return len(scripted.asked)


async def test_what_a_later_page_fails_with_is_told_behind_the_messages_before_it(serve: Serve) -> None:
    host = await serve(ScriptedHost(fail_from=1))
    async with aclosing(host.messages().all()) as messages:
        assert [(await anext(messages)).id, (await anext(messages)).id] == ["0-a", "0-b"]
        with pytest.raises(InvalidArgument):
            await anext(messages)


async def test_who_stops_looking_is_not_told_of_the_page_behind(serve: Serve) -> None:
    scripted = ScriptedHost(fail_from=1)
    host = await serve(scripted)
    complaints: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    try:
        async with aclosing(host.messages().all()) as messages:
            await anext(messages)
            (asked,) = (task for task in asyncio.all_tasks() if "_response" in repr(task.get_coro()))
            await asyncio.wait([asked])
        del asked
        gc.collect()
    finally:
        loop.set_exception_handler(None)
    assert complaints == []
