"""The connection to the host."""

import os
from pathlib import Path
from types import TracebackType
from typing import Self

import grpc

from kandev_plugin_sdk._calls import Caller
from kandev_plugin_sdk.messages import MessageReader

TIMEOUT_SECONDS = 10.0

_OPTIONS = (
    # The host's longest response.
    ("grpc.max_receive_message_length", 17 << 20),
    # Until it is connected again a channel refuses every try; by itself it would wait for up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
)


class Host:
    """The host of this plugin. Use as an async context manager; any number of calls may be under way.

    `tls`: `True` for the system's authorities, or authorities as PEM; otherwise the token travels unencrypted, which is
    for one machine. `timeout`: seconds of a call with all its tries.
    """

    def __init__(
        self, address: str, token: str, *, tls: bool | bytes = False, timeout: float = TIMEOUT_SECONDS
    ) -> None:
        self._address = address
        self._token = token.strip()
        self._tls = tls
        self._timeout = timeout
        self._channel: grpc.aio.Channel | None = None

    @classmethod
    def from_environment(cls, *, timeout: float = TIMEOUT_SECONDS) -> Self:
        """The host that `KANDEV_RPC_ADDRESS` (else 127.0.0.1:8081), `KANDEV_PLUGIN_TOKEN` and `KANDEV_RPC_TLS_CA` (a
        PEM file, or `system`) name. Raises KeyError without a token and OSError for a file that cannot be read.
        """
        authorities = os.environ.get("KANDEV_RPC_TLS_CA", "")
        tls: bool | bytes = authorities == "system"
        if authorities and not tls:
            tls = Path(authorities).read_bytes()
        address = os.environ.get("KANDEV_RPC_ADDRESS") or "127.0.0.1:8081"
        return cls(address, os.environ["KANDEV_PLUGIN_TOKEN"], tls=tls, timeout=timeout)

    async def __aenter__(self) -> Self:
        if self._tls:
            roots = self._tls if isinstance(self._tls, bytes) else None
            credentials = grpc.ssl_channel_credentials(roots)
            self._channel = grpc.aio.secure_channel(self._address, credentials, options=_OPTIONS)
        else:
            self._channel = grpc.aio.insecure_channel(self._address, options=_OPTIONS)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._channel is not None:
            await self._channel.close()
            self._channel = None

    def messages(self) -> MessageReader:
        """The messages that this plugin may read."""
        if self._channel is None:
            raise RuntimeError("a host is used inside `async with`")
        return MessageReader(Caller(self._channel, self._token, self._timeout))
