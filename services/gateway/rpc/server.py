"""The gRPC server of one gateway process, beside its HTTP server."""

import logging
from types import TracebackType
from typing import Self

import grpc
from grpc_health.v1 import health
from grpc_reflection.v1alpha import reflection

from services.gateway.rpc.health import Health
from services.gateway.rpc.host import SERVICE, Host
from services.gateway.rpc.streams import StreamLimit
from shared.settings import Settings

logger = logging.getLogger(__name__)

MOST_CALLS = 64
"""Calls at once, of whichever service; more are told RESOURCE_EXHAUSTED. Streams have a part of them
(`services.gateway.rpc.streams`): those that need no token must not take every place.
"""

DRAIN_SECONDS = 3.0
"""How long calls may take to end when the process is told to stop."""

_OPTIONS = (
    # A request is a filter of at most 400 ids; a response a page of 8 MiB, or one long message, with its ids.
    ("grpc.max_receive_message_length", 1 << 20),
    ("grpc.max_send_message_length", 17 << 20),
    # Otherwise two gateways would share a port that both were given, and neither would say so.
    ("grpc.so_reuseport", 0),
    # A peer that is gone is found out within two minutes; one that asks whether we are there every ten seconds is not
    # sent away.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.max_connection_idle_ms", 15 * 60_000),
)


class Server:
    """Listens once it is made, serves inside `async with`, and lets calls end behind it. Does nothing where the port is
    0.

    Making it raises OSError when nothing can listen there, or the files of TLS cannot be used.
    """

    def __init__(self, settings: Settings, host: Host) -> None:
        self._settings = settings
        self._health = Health((health.OVERALL_HEALTH, SERVICE))
        self._server: grpc.aio.Server | None = None
        if settings.rpc_port:
            server = self._server = grpc.aio.server(
                options=_OPTIONS, maximum_concurrent_rpcs=MOST_CALLS, interceptors=(StreamLimit(),)
            )
            server.add_generic_rpc_handlers((host.handler(), self._health.handler()))
            reflection.enable_server_reflection((SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
            _listen(server, settings)

    async def __aenter__(self) -> Self:
        if self._server is not None:
            await self._health.set(serving=True)
            await self._server.start()
            secured = " on TLS" if self._settings.rpc_tls_cert is not None else ""
            logger.info("Host RPC listens on %s:%d%s", self._settings.host, self._settings.rpc_port, secured)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.announce()
        await self.stop()

    async def announce(self) -> None:
        """Says, to whoever asks the health service, that it will stop; and serves on."""
        await self._health.set(serving=False)

    async def stop(self) -> None:
        """Takes no more calls; those under way may end."""
        if self._server is not None:
            await self._server.stop(DRAIN_SECONDS)


def _listen(server: grpc.aio.Server, settings: Settings) -> None:
    name = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = f"{name}:{settings.rpc_port}"
    try:
        if settings.rpc_tls_cert is not None and settings.rpc_tls_key is not None:
            pair = (settings.rpc_tls_key.read_bytes(), settings.rpc_tls_cert.read_bytes())
            server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
        else:
            server.add_insecure_port(address)
    except RuntimeError:
        raise OSError(f"nothing can listen on {address}, or the TLS files are no certificate and key") from None
