"""Streams that anybody may hold open, such as a watch of the health: they have a part of all calls and no more."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import grpc

MOST_STREAMS = 32
"""Streams at once; more are told RESOURCE_EXHAUSTED. They need no token and have no end of their own."""

# Any: requests and responses of whichever service.
_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"
_Context = grpc.aio.ServicerContext[Any, Any]


class StreamLimit(grpc.aio.ServerInterceptor):
    """Counts the streams of one server."""

    def __init__(self) -> None:
        self._open = 0

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[_Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> _Handler:
        """The method's handler; that of a stream takes one of the places."""
        handler = await continuation(handler_call_details)
        if handler is None or not handler.response_streaming:
            return handler
        if handler.request_streaming:
            wrap, behaviour = grpc.stream_stream_rpc_method_handler, handler.stream_stream
        else:
            wrap, behaviour = grpc.unary_stream_rpc_method_handler, handler.unary_stream
        return wrap(self._limited(behaviour), handler.request_deserializer, handler.response_serializer)

    # Any: the library's types are those of its threads, and do not describe handlers on the event loop.
    def _limited(self, behaviour: Any) -> Any:
        async def limited(request: Any, context: _Context) -> None:
            if self._open >= MOST_STREAMS:
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many streams are open at this gateway")
            self._open += 1
            try:
                if inspect.isasyncgenfunction(behaviour):
                    async for response in behaviour(request, context):
                        await context.write(response)
                else:
                    await behaviour(request, context)
            except grpc.aio.InternalError:
                return  # the peer is gone, and with it whom to tell
            finally:
                self._open -= 1

        return limited
