"""How the SDK goes from page to page, with a host that answers by script over a real channel."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import grpc
import pytest
from kandev_plugin_sdk import Host, HostError, InvalidArgument, Page, Unauthenticated
from kandev_plugin_sdk._calls import SERVICE

from shared.host_rpc.generated import plugin_pb2 as wire
from tests.support.waiting import eventually

PAGES = 5


class ScriptedHost:
    """Answers a list of `PAGES` pages with two messages each. `fail_from`: the first page that is refused. `answer`:
    what is answered instead, whatever is asked. `hang`: nothing is, until the call ends.
    """

    def __init__(self, fail_from: int = PAGES, *, answer: bytes | None = None, hang: bool = False) -> None:
        self.asked: list[int] = []
        self.limits: list[int] = []
        self._fail_from = fail_from
        self._answer = answer
        self._hang = hang

    async def list_messages(
        self, request: wire.ListMessagesRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> bytes:
        """The page that the cursor names."""
        number = int(request.page.cursor or 0)
        self.asked.append(number)
        self.limits.append(request.page.limit)
        if self._hang:
            await asyncio.Event().wait()
        if self._answer is not None:
            return self._answer
        if number >= self._fail_from:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no")
        messages = [wire.Message(id=f"{number}-{each}", created_at="2026-11-30T10:00:00Z") for each in "ab"]
        more = number + 1 < PAGES
        info = wire.PageInfo(next_cursor=str(number + 1) if more else "", has_more=more)
        return wire.ListMessagesResponse(messages=messages, page_info=info).SerializeToString()


Serve = Callable[[ScriptedHost], Awaitable[Host]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Serves a host and connects to it."""
    server = grpc.aio.server()
    hosts: list[Host] = []

    async def connected(scripted: ScriptedHost) -> Host:
        handler: grpc.RpcMethodHandler[Any, Any] = grpc.unary_unary_rpc_method_handler(
            scripted.list_messages, request_deserializer=wire.ListMessagesRequest.FromString
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


@pytest.mark.parametrize("created_at", ["", "yesterday", "10000-01-01T00:00:00Z"])
async def test_a_time_that_nothing_can_hold_is_an_answer_that_cannot_be_read(serve: Serve, created_at: str) -> None:
    response = wire.ListMessagesResponse(messages=[wire.Message(id="m", created_at=created_at)])
    await _cannot_be_read(await serve(ScriptedHost(answer=response.SerializeToString())))


@pytest.mark.parametrize("answer", [b"\n garbage", b"\n", b"\x12\xff", b"{}", b"\n\x03\n\x01\xff"])
async def test_an_answer_that_is_none_is_told_as_such(serve: Serve, answer: bytes) -> None:
    await _cannot_be_read(await serve(ScriptedHost(answer=answer)))


async def _cannot_be_read(host: Host) -> None:
    with pytest.raises(HostError, match="cannot be read") as refused:
        await host.messages().list()
    assert refused.value.code == "INTERNAL"
    with pytest.raises(HostError, match="cannot be read"):
        [message async for message in host.messages().all()]


async def test_who_waits_when_the_host_is_closed_is_told_and_not_cancelled(serve: Serve) -> None:
    scripted = ScriptedHost(hang=True)
    host = await serve(scripted)
    reader = host.messages()
    waiting = asyncio.ensure_future(reader.list())
    await eventually(lambda: _count(scripted), bool)
    await host.__aexit__(None, None, None)
    for asked in (waiting, asyncio.ensure_future(reader.list())):
        with pytest.raises(HostError, match="closed") as refused:
            await asked
        assert refused.value.code == "CANCELLED"


async def test_who_is_cancelled_while_waiting_is(serve: Serve) -> None:
    scripted = ScriptedHost(hang=True)
    host = await serve(scripted)
    waiting = asyncio.ensure_future(host.messages().list())
    await eventually(lambda: _count(scripted), bool)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()


async def test_a_limit_of_any_size_can_be_asked_for(serve: Serve) -> None:
    scripted = ScriptedHost()
    host = await serve(scripted)
    for limit in (2**63, 201, 7, 0, -(2**63)):
        await host.messages().list(page=Page(limit))
    assert scripted.limits == [200, 200, 7, 0, 0]


@pytest.mark.parametrize("token", ["kandev_plugin_\N{EN DASH}", "two\nlines", "a\x00b"])
async def test_a_token_that_cannot_be_sent_is_none(token: str) -> None:
    async with Host("127.0.0.1:1", token) as host:
        with pytest.raises(Unauthenticated, match="no token has"):
            await host.messages().list()
