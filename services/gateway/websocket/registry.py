"""The open connections of this process."""

import asyncio

from services.gateway.websocket.closes import GOING_AWAY
from services.gateway.websocket.connection import Connection


class Connections:
    """Knows every open connection, to close them all when the process stops."""

    def __init__(self) -> None:
        self._open: set[Connection] = set()

    def add(self, connection: Connection) -> None:
        """A client has connected."""
        self._open.add(connection)

    def discard(self, connection: Connection) -> None:
        """A client is gone."""
        self._open.discard(connection)

    async def close_all(self) -> None:
        """Closes every connection with the code that means: connect again, elsewhere."""
        await asyncio.gather(*(connection.close(GOING_AWAY) for connection in self._open), return_exceptions=True)
