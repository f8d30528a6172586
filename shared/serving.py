"""How requests are refused before the application sees them: what aiohttp answers by itself, in this project's form.

Its own answers quote the request line, headers or the start of what was sent. A cookie or a token would stand there.
"""

from typing import Any

from aiohttp import web
from aiohttp.web_request import BaseRequest

_SENTENCES = {
    400: "the request is not HTTP as it is read here",
    417: "the request expects what is not done here",
    504: "the request took too long",
}


class Runner(web.AppRunner):
    """Runs an application whose every answer is its own, or a JSON sentence without a byte of the request."""

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()
        return _Server(made.request_handler, request_factory=made.request_factory, **self._kwargs)


class _Server(web.Server):
    def __init__(self, handler: Any, **options: Any) -> None:  # Any: aiohttp does not export the types of these
        async def handle(request: BaseRequest) -> web.StreamResponse:
            try:
                answer: web.StreamResponse = await handler(request)
            except web.HTTPException as refused:
                return _sentence(refused.status)
            return answer

        super().__init__(handle, **options)
        self._options = {name: value for name, value in options.items() if name != "request_factory"}

    def __call__(self) -> web.RequestHandler:
        return _Protocol(self, loop=self._loop, **self._options)


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


def _sentence(status: int) -> web.Response:
    sentence = _SENTENCES.get(status, "the request failed; it was logged")
    return web.json_response({"error": sentence}, status=status, headers={"Cache-Control": "no-store"})
