"""A line to a gateway, or to Redis, that can be cut."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self
from urllib.parse import urlsplit

BACKLOG = 1024
"""Connections that may come at once."""


class Line:
    """What connections go through on their way to a gateway. They are lost whole, never a part of what they carry."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._ends: set[asyncio.StreamWriter] = set()
        self._cut = False
        self._flows = asyncio.Event()
        self._flows.set()
        self._server: asyncio.Server

    @classmethod
    @asynccontextmanager
    async def to(cls, url: str) -> AsyncIterator[Self]:
        """A line to the gateway at this address."""
        line = cls(urlsplit(url).port or 0)
        line._server = await asyncio.start_server(line._carry, "127.0.0.1", 0, backlog=BACKLOG)
        try:
            yield line
        finally:
            line.cut()
            line._server.close()
            await line._server.wait_closed()

    @property
    def url(self) -> str:
        """The gateway's address on this line."""
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        """Ends every connection on it, and each that comes."""
        self._cut = True
        self._flows.set()
        for end in self._ends:
            end.transport.abort()

    def mend(self) -> None:
        """Lets connections come again, and what is held go on."""
        self._cut = False
        self._flows.set()

    def hold(self) -> None:
        """Lets nothing through, though connections stay."""
        self._flows.clear()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._cut:
            writer.transport.abort()
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        ends = {writer, far_writer}
        self._ends |= ends
        await asyncio.gather(self._pass(reader, far_writer), self._pass(far_reader, writer))
        self._ends -= ends

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                await self._flows.wait()
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()
