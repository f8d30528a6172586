"""The health service (`grpc.health.v1.Health`), whose watchers cannot hold up one another, nor the gateway.

The library's own holds its lock while it writes to a watcher, and one that takes nothing would keep all others from
hearing that the gateway stops, and the gateway from stopping.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

import grpc
from grpc_health.v1 import health
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

_Context = grpc.aio.ServicerContext[HealthCheckRequest, HealthCheckResponse]


class Health:
    """Tells of some services, all of the same health; at first they do not serve."""

    def __init__(self, services: Iterable[str]) -> None:
        self._services = frozenset(services)
        self._status = HealthCheckResponse.NOT_SERVING
        self._changed = asyncio.Condition()

    def handler(self) -> grpc.GenericRpcHandler:
        """What a server serves."""
        read, written = HealthCheckRequest.FromString, HealthCheckResponse.SerializeToString
        return grpc.method_handlers_generic_handler(
            health.SERVICE_NAME,
            {
                "Check": grpc.unary_unary_rpc_method_handler(self._check, read, written),
                "Watch": grpc.unary_stream_rpc_method_handler(self._watch, read, written),
            },
        )

    async def set(self, *, serving: bool) -> None:
        """From now on they serve, or do not."""
        async with self._changed:
            self._status = HealthCheckResponse.SERVING if serving else HealthCheckResponse.NOT_SERVING
            self._changed.notify_all()

    async def _check(self, request: HealthCheckRequest, context: _Context) -> HealthCheckResponse:
        if request.service not in self._services:
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no such service")
        return HealthCheckResponse(status=self._status)

    async def _watch(self, request: HealthCheckRequest, context: _Context) -> None:
        told = None
        while True:
            async with self._changed:
                while told == self._now(request.service):
                    await self._changed.wait()
                told = self._now(request.service)
            await context.write(HealthCheckResponse(status=told))

    # Any: the library has no types for these.
    def _now(self, service: str) -> Any:
        return self._status if service in self._services else HealthCheckResponse.SERVICE_UNKNOWN
