"""How requests are refused before the application sees them: what aiohttp answers by itself, in this project's form;
and connections that bring no request, or not the whole of one.

Its own answers quote the request line, headers or the start of what was sent. A cookie or a token would stand there.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from aiohttp.web_request import BaseRequest

_SENTENCES = {
    400: "the request is not HTTP as it is read here",
    417: "the request expects what is not done here",
    504: "the request took too long",
}


@dataclass(frozen=True, slots=True)
class Patience:
    """What a connection may take before it is closed.

    `head`: seconds until the whole head of a request has come, from the opening or the last answer. `body`: seconds
    until its whole body has, from then on. `vacant`: most connections at a time that have no request in hand; beyond
    them the one that has waited longest goes.
    """

    head: float = 75.0
    body: float = 300.0
    vacant: int = 4096


class Runner(web.AppRunner):
    """Runs an application whose every answer is its own, or a JSON sentence without a byte of the request."""

    # Any: aiohttp's own options.
    def __init__(self, application: web.Application, patience: Patience | None = None, **options: Any) -> None:
        self._patience = patience or Patience()
        # From the opening on, aiohttp closes a connection that has no request for this long, begun heads included.
        super().__init__(application, keepalive_timeout=self._patience.head, **options)

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()
        return _Server(self._patience, made.request_handler, request_factory=made.request_factory, **self._kwargs)


class _Server(web.Server):
    # Any: aiohttp does not export the types of these.
    def __init__(self, patience: Patience, handler: Any, **options: Any) -> None:
        async def handle(request: BaseRequest) -> web.StreamResponse:
            # Not a context manager: its generator would be half a KiB of every WebSocket.
            cut = self._take(request)
            try:
                answer: web.StreamResponse = await handler(request)
            except web.HTTPException as refused:
                return _sentence(refused.status)
            finally:
                self._give_back(request, cut)
            return answer

        super().__init__(handle, **options)
        self._patience = patience
        self._vacant: OrderedDict[web.RequestHandler, None] = OrderedDict()
        self._options = {name: value for name, value in options.items() if name != "request_factory"}

    def __call__(self) -> web.RequestHandler:
        return _Protocol(self, loop=self._loop, **self._options)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """A connection, with no request yet."""
        super().connection_made(handler, transport)
        self._is_vacant(handler)

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        """It has ended."""
        self._vacant.pop(handler, None)
        super().connection_lost(handler, exc)

    def _take(self, request: BaseRequest) -> asyncio.TimerHandle | None:
        """From now on its connection is not vacant, and its body has to come in time: what cuts it otherwise."""
        self._vacant.pop(request.protocol, None)
        if request.content.is_eof():
            return None
        return asyncio.get_running_loop().call_later(self._patience.body, _cut, request)

    def _give_back(self, request: BaseRequest, cut: asyncio.TimerHandle | None) -> None:
        """The request is answered."""
        if cut is not None:
            cut.cancel()
        if request.protocol.transport is not None:
            self._is_vacant(request.protocol)

    def _is_vacant(self, handler: web.RequestHandler) -> None:
        self._vacant[handler] = None
        if len(self._vacant) > self._patience.vacant:
            oldest, _ = self._vacant.popitem(last=False)
            oldest.force_close()


class _Protocol(web.RequestHandler):
    __slots__ = ()

    def handle_error(
        self, request: BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Logs as aiohttp does, and answers otherwise."""
        super().handle_error(request, status, exc, message)
        answer = _sentence(status)
        answer.force_close()
        return answer


def _cut(request: BaseRequest) -> None:
    """Ends a connection whose body has not come in time; whoever reads it learns that the client is gone."""
    if not request.content.is_eof():
        request.protocol.force_close()


def _sentence(status: int) -> web.Response:
    sentence = _SENTENCES.get(status, "the request failed; it was logged")
    return web.json_response({"error": sentence}, status=status, headers={"Cache-Control": "no-store"})
