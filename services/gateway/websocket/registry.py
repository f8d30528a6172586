"""The open connections of this process."""

import asyncio
from collections.abc import Collection, Iterable

from services.gateway.metrics import CONNECTIONS, QUEUED_BYTES, QUEUED_FRAMES
from services.gateway.websocket.closes import GOING_AWAY, IDLE, UNAUTHENTICATED
from services.gateway.websocket.connection import Connection
from shared.contracts.errors import RequestFailed
from shared.contracts.identity import Identity
from shared.metrics.declaring import Read

LOOKS = 10
"""Looks for idle connections within the time after which they are idle: so much later are they closed at most, in
parts of it.
"""


class Connections:
    """Knows every open connection, to close those whose credential has ended, and all when the process leaves its
    clients to others, or stops.
    """

    def __init__(self) -> None:
        self._open: set[Connection] = set()
        self._ending: dict[Connection, asyncio.Task[None]] = {}
        self.leaving = False
        """Whether the process stops: it takes no more connections."""

    def require_staying(self) -> None:
        """Raises RequestFailed where the process takes no more connections."""
        if self.leaving:
            raise RequestFailed("unavailable", "this gateway stops; connect again")

    def add(self, connection: Connection) -> None:
        """A client has connected."""
        self._open.add(connection)

    def discard(self, connection: Connection) -> None:
        """A client is gone."""
        self._open.discard(connection)

    def reads(self) -> Iterable[Read]:
        """How many there are, and what waits for them to be read."""
        yield CONNECTIONS.of(len(self._open))
        yield QUEUED_FRAMES.of(0)
        yield QUEUED_BYTES.of(0)
        for connection in self._open:
            if connection.queued_frames:
                yield QUEUED_FRAMES.of(connection.queued_frames)
                yield QUEUED_BYTES.of(connection.queued_bytes)

    def credentials(self) -> frozenset[tuple[str, str]]:
        """User and credential of every connection."""
        identities = (connection.caller.identity for connection in self._open)
        return frozenset((identity.user, identity.credential) for identity in identities)

    def end(self, user: str, credentials: Collection[str]) -> int:
        """Closes the connections that these credentials of a user opened, all of the user's where none is named: a
        terminal frame for each scope, then the close. Returns how many; nothing is waited for.
        """
        ending = [
            connection
            for connection in self._open
            if connection not in self._ending and _opened_by(connection.caller.identity, user, credentials)
        ]
        for connection in ending:
            connection.hub.revoke(connection.scopes.values())
            self._ending[connection] = asyncio.get_running_loop().create_task(self._end(connection))
        return len(ending)

    async def _end(self, connection: Connection) -> None:
        try:
            await connection.close(UNAUTHENTICATED)
        finally:
            del self._ending[connection]

    async def run(self, idle_seconds: float) -> None:
        """Closes connections that were idle for so many seconds, until it is cancelled."""
        while True:
            await asyncio.sleep(idle_seconds / LOOKS)
            self.end_idle(asyncio.get_running_loop().time(), idle_seconds)

    def end_idle(self, now: float, seconds: float) -> None:
        """Closes the connections that have followed nothing and asked for nothing for so many seconds."""
        for connection in self._open:
            if now - connection.idle_since(now) >= seconds:
                connection.begin_close(IDLE)

    def notify(self, user: str, text: bytes) -> None:
        """Sends a notification to every connection of a user. One that takes nothing at the moment and has no more room
        misses it.
        """
        for connection in self._open:
            if connection.caller.identity.user == user:
                connection.notify(text)

    async def leave(self, seconds: float) -> None:
        """Closes every connection with the code that means: connect again, elsewhere. Evenly over this time: what their
        clients then ask of others comes as evenly. Each has what it asked for answered first.
        """
        self.leaving = True
        loop, leaving = asyncio.get_running_loop(), list(self._open)
        begun = loop.time()
        async with asyncio.TaskGroup() as closing:
            for number, connection in enumerate(leaving):
                await asyncio.sleep(begun + seconds * number / len(leaving) - loop.time())
                closing.create_task(connection.leave())

    async def close_all(self) -> None:
        """Closes every connection with the code that means: connect again, elsewhere."""
        closing = (connection.close(GOING_AWAY) for connection in self._open)
        await asyncio.gather(*closing, *self._ending.values(), return_exceptions=True)


def _opened_by(identity: Identity, user: str, credentials: Collection[str]) -> bool:
    return identity.user == user and (not credentials or identity.credential in credentials)
