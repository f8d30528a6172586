"""The service `kandev.plugin.v1.Host`: who calls, what the plugin may do, and the read."""

import asyncio
import logging
import time
from typing import Never

from google.protobuf.message import DecodeError
from grpc import GenericRpcHandler, StatusCode, method_handlers_generic_handler, unary_unary_rpc_method_handler
from grpc.aio import ServicerContext

from services.gateway.plugins.registry import ActivePlugin
from services.gateway.rpc.errors import CallRefused, refused
from services.gateway.rpc.messages import read_of
from services.gateway.rpc.tokens import PluginTokens
from services.gateway.source.requests import Source
from shared.contracts.errors import RequestFailed
from shared.database import LOST
from shared.host_rpc.generated import plugin_pb2 as wire

logger = logging.getLogger(__name__)

Context = ServicerContext[bytes, bytes]

SERVICE = wire.DESCRIPTOR.services_by_name["Host"].full_name

MOST_READS = 8
"""Reads under way at once: each is a response of 8 MiB, or of one message of 16. Others wait, within their time."""

MOST_SECONDS = 30.0
"""A deadline further ahead is none: no statement of the reader takes longer."""


class Host:
    """Answers the calls of plugins' own processes."""

    def __init__(self, source: Source, tokens: PluginTokens) -> None:
        self._source = source
        self._tokens = tokens
        self._reads = asyncio.Semaphore(MOST_READS)

    def handler(self) -> GenericRpcHandler:
        """What a server serves. Every method without a handler answers UNIMPLEMENTED."""
        # Requests come as bytes: what cannot be read is refused as such, and not before it is known who sent it.
        # Responses go as the bytes that a reader has made of them.
        return method_handlers_generic_handler(
            SERVICE,
            {"ListMessages": unary_unary_rpc_method_handler(self.list_messages)},
        )

    async def list_messages(self, request: bytes, context: Context) -> bytes:
        """A page of messages. Looks at the token, the capability, and the arguments, in this order; and at the first
        two again before anything leaves, since a read may have waited for long.
        """
        # None, whatever its type says, where the caller has set no deadline.
        seconds = min(context.time_remaining() or self._source.timeout, MOST_SECONDS)
        until = time.monotonic() + seconds
        try:
            async with asyncio.timeout(seconds):
                _require(await self._caller(context), "messages")
                read = read_of(wire.ListMessagesRequest.FromString(request))
                async with self._reads:
                    response = await self._source.host_messages(read, until - time.monotonic())
                    _require(await self._caller(context), "messages")
                    return response
        except RequestFailed as failed:
            # Its time is the call's, and either of them may be the first to find that it is over.
            await _end(context, TimeoutError() if time.monotonic() >= until else failed)
        except Exception as error:  # noqa: BLE001 - gRPC would tell the caller its text
            await _end(context, error)

    async def _caller(self, context: Context) -> ActivePlugin:
        for name, value in context.invocation_metadata() or ():
            scheme, _, token = value.partition(" ") if isinstance(value, str) else ("", "", "")
            if name == "authorization" and scheme.lower() == "bearer":
                plugin = await self._tokens.plugin(token.strip())
                if plugin is not None:
                    return plugin
        raise CallRefused(
            StatusCode.UNAUTHENTICATED,
            "expected the metadata `authorization: Bearer kandev_plugin_...` with the token of an active plugin",
        )


def _require(plugin: ActivePlugin, resource: str) -> None:
    if not plugin.may_read(resource):
        raise CallRefused(StatusCode.PERMISSION_DENIED, f"capability 'api_read:{resource}' not declared")


async def _end(context: Context, error: Exception) -> Never:
    match error:
        case CallRefused():
            told = error
        case RequestFailed():
            told = refused(error)
        case DecodeError():
            told = CallRefused(StatusCode.INVALID_ARGUMENT, "the request is no ListMessagesRequest")
        case TimeoutError():
            told = CallRefused(StatusCode.DEADLINE_EXCEEDED, "the messages were not read in time")
        case _ if isinstance(error, LOST):
            told = CallRefused(StatusCode.UNAVAILABLE, "the database did not answer; ask again")
        case _:
            logger.error("a call of Host RPC failed: %s", type(error).__name__)
            told = CallRefused(StatusCode.INTERNAL, "the call failed; see the gateway's log")
    await context.abort(told.status, str(told))
