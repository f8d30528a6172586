"""What follows when credentials end: nobody is taken for their caller any more, and what they opened is closed.

The control stream tells it at once. Every five seconds the database is asked about all credentials of open connections:
control entries can be lost, sessions and tokens expire, and accounts are changed by the command line and by plain SQL.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence

import asyncpg

from services.gateway.control import Control
from services.gateway.identity import sessions, tokens
from services.gateway.identity.authentication import Enabled
from services.gateway.websocket.registry import Connections
from shared.contracts.control import AccountChanged, CredentialsEnded
from shared.database import LOST

logger = logging.getLogger(__name__)

PERIOD_SECONDS = 5.0
"""Every credential of an open connection is looked at this often."""

SWEEP_SECONDS = 600.0
"""Pause between two removals of what has expired."""

# By primary keys. $1: names of credentials. One query for all connections of this gateway.
_STANDING = f"""
SELECT '{sessions.KIND}:' || s.id AS credential FROM gateway.login_sessions s JOIN gateway.users u ON u.id = s.user_id
 WHERE s.id = ANY($1::text[]) AND s.expires_at > clock_timestamp() AND u.disabled_at IS NULL
UNION ALL
SELECT '{tokens.KIND}:' || t.id FROM gateway.access_tokens t JOIN gateway.users u ON u.id = t.user_id
 WHERE t.id = ANY($1::text[]) AND (t.expires_at IS NULL OR t.expires_at > clock_timestamp())
   AND u.disabled_at IS NULL
"""  # noqa: S608 - literals


class CredentialWatch:
    """Ends what credentials opened, on this gateway and on all. `sweeps` remove what has expired."""

    def __init__(
        self,
        database: asyncpg.Pool,
        authentication: Enabled,
        connections: Connections,
        control: Control,
        sweeps: Sequence[Callable[[], Awaitable[None]]],
    ) -> None:
        self._database = database
        self._authentication = authentication
        self._connections = connections
        self._control = control
        self._sweeps = sweeps
        control.listen(CredentialsEnded, self._heard)
        control.listen(AccountChanged, self._heard_of_account)

    async def ended(self, user: str, credentials: Collection[str] = ()) -> None:
        """Credentials of a user have ended, all where none is named: here at once, elsewhere by the control stream."""
        self._end(user, credentials)
        await self._control.announce(CredentialsEnded(user=user, credentials=tuple(credentials)))

    async def changed(self, user: str) -> None:
        """An account is another one than it was: nobody goes on with the rights that it had."""
        self._authentication.forget(user, ())
        await self._control.announce(AccountChanged(user=user))

    async def run(self) -> None:
        """Looks until it is cancelled."""
        clock = asyncio.get_running_loop().time
        swept = clock()
        while True:
            await asyncio.sleep(PERIOD_SECONDS)
            try:
                await self._look()
                if clock() - swept > SWEEP_SECONDS:
                    swept = clock()
                    for sweep in self._sweeps:
                        await sweep()
            except LOST as error:
                logger.warning("credentials of open connections were not looked at: %s", type(error).__name__)

    async def _look(self) -> None:
        opened = self._connections.credentials()
        if not opened:
            return
        ids = [credential.partition(":")[2] for _, credential in opened]
        standing = {row["credential"] for row in await self._database.fetch(_STANDING, ids)}
        for user, credential in opened:
            if credential not in standing:
                self._end(user, (credential,))

    async def _heard(self, change: CredentialsEnded) -> None:
        self._end(change.user, change.credentials)

    async def _heard_of_account(self, change: AccountChanged) -> None:
        self._authentication.forget(change.user, ())

    def _end(self, user: str, credentials: Collection[str]) -> None:
        self._authentication.forget(user, credentials)
        closed = self._connections.end(user, credentials)
        if closed:
            logger.info("%d connections are closed: credentials of user %s have ended", closed, user)
