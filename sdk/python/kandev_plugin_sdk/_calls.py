"""One call to the host, tried again while nobody answers."""

import asyncio
import random
import time
from collections.abc import Callable
from typing import TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from kandev_plugin_sdk.errors import CLOSED, NO_TOKEN, UNREADABLE, error_of

SERVICE = "kandev.plugin.v1.Host"

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
"""Seconds between tries: doubled each time, and then a random part of it, so that many plugins do not come at once."""

ResponseT = TypeVar("ResponseT", bound=Message)


class Caller:
    """Calls methods of the host on one channel. `timeout`: seconds of a call with all its tries."""

    def __init__(self, channel: grpc.aio.Channel, token: str, timeout: float) -> None:
        self._channel = channel
        self._token = token
        self._metadata = (("authorization", f"Bearer {token}"),)
        self._timeout = timeout

    async def call(self, method: str, request: Message, parse: Callable[[bytes], ResponseT]) -> ResponseT:
        """The response. Raises HostError."""
        if not (self._token.isascii() and self._token.isprintable()):  # the library would fail at it in its own way
            raise error_of(*NO_TOKEN)
        answer = await self._answer(f"/{SERVICE}/{method}", request.SerializeToString())
        try:
            return parse(answer)
        except DecodeError:
            raise error_of(*UNREADABLE) from None

    async def _answer(self, method: str, request: bytes) -> bytes:
        # As bytes: of an answer that cannot be read the library says nothing, and gives None.
        ask: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(method)
        deadline = time.monotonic() + self._timeout
        pause = FIRST_PAUSE
        while True:
            left = deadline - time.monotonic()
            try:
                answer: bytes = await ask(request, timeout=max(left, 0.0), metadata=self._metadata)
            except grpc.aio.AioRpcError as error:
                wait = random.uniform(pause / 2, pause)
                if error.code() is not grpc.StatusCode.UNAVAILABLE or time.monotonic() + wait >= deadline:
                    raise error_of(error.code().name, error.details() or "") from None
            except grpc.aio.UsageError:
                raise error_of(*CLOSED) from None
            except asyncio.CancelledError:
                # The library cancels calls when their channel closes: that is not for the task that asks.
                if (task := asyncio.current_task()) is None or task.cancelling():
                    raise
                raise error_of(*CLOSED) from None
            else:
                return answer
            await asyncio.sleep(wait)
            pause = min(2 * pause, LONGEST_PAUSE)
