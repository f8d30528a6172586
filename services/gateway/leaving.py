"""How a gateway that was told to stop leaves its clients to others, in an order in which nothing is refused that nobody
else would take.
"""

import asyncio

from aiohttp import web

from services.gateway.rpc.server import Server
from services.gateway.websocket.registry import Connections
from shared.settings import Settings


class Leaving:
    """Ends what one gateway serves: the site on which it listens, its Host RPC, and its connections."""

    def __init__(self, settings: Settings, site: web.BaseSite, rpc: Server, connections: Connections) -> None:
        self._pause = settings.drain_pause
        self._seconds = settings.drain_seconds
        self._site = site
        self._rpc = rpc
        self._connections = connections

    async def drain(self) -> None:
        """While it says that it is not ready, it goes on as before for the pause: load balancers still send what comes.
        Then it takes no more connections, and closes the WebSockets one by one. Requests on connections that are open
        are answered to the end, and each such answer ends its connection.
        """
        await self._rpc.announce()
        await asyncio.sleep(self._pause)
        await self._site.stop()
        async with asyncio.TaskGroup() as ending:
            ending.create_task(self._rpc.stop())
            ending.create_task(self._connections.leave(self._seconds))
