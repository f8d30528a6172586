"""A load balancer that sends each new connection to a gateway which says, at this moment, that it is ready."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import aiohttp


class Balancer:
    """Listens at `url` inside `async with`. Of the gateways that are ready, the one with the fewest connections is
    next.
    """

    def __init__(self, gateways: Sequence[str]) -> None:
        self._gateways = gateways
        self._open: Counter[str] = Counter()
        self._serving: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server
        self._http: aiohttp.ClientSession

    @property
    def url(self) -> str:
        """Where clients connect."""
        host, port = self._server.sockets[0].getsockname()
        return f"http://{host}:{port}"

    async def __aenter__(self) -> Self:
        self._http = aiohttp.ClientSession()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await self._http.close()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._carry(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            ready = [url for url in self._gateways if await self._is_ready(url)]
            if ready:
                chosen = min(ready, key=self._open.__getitem__)
                self._open[chosen] += 1
                try:
                    with suppress(OSError):
                        await _joined(reader, writer, chosen)
                finally:
                    self._open[chosen] -= 1
        finally:
            writer.close()

    async def _is_ready(self, url: str) -> bool:
        try:
            async with self._http.get(f"{url}/ready") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False


async def _joined(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, url: str) -> None:
    """Carries bytes both ways until both sides have ended."""
    parts = urlsplit(url)
    back_reader, back_writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        async with asyncio.TaskGroup() as both:
            both.create_task(_copied(reader, back_writer))
            both.create_task(_copied(back_reader, writer))
    finally:
        back_writer.close()


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
    writer.close()
