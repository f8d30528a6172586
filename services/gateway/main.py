"""One gateway process."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import asyncpg
from aiohttp import web

from services.gateway.control import Control
from services.gateway.http.application import build
from services.gateway.http.keys import ACTIONS, AUTHENTICATION, CONNECTIONS, CONTROL, DATABASE, HUB, READINESS, SOURCE
from services.gateway.http.socket import actions
from services.gateway.identity.authentication import Disabled
from services.gateway.receipts.intake import Intake
from services.gateway.scopes.checks import Checks
from services.gateway.scopes.hub import Hub
from services.gateway.source.partitions import read_partitions
from services.gateway.source.positions import KnownPositions
from services.gateway.source.requests import Source
from services.gateway.websocket.registry import Connections
from shared.broker.connection import BROKER_ERRORS, RETRY_SECONDS, connect
from shared.broker.guarded import GroupGuard, open_broker
from shared.broker.receipts import ReceiptReader
from shared.broker.replies import ReplyInbox
from shared.contracts.control import AccessChanged
from shared.contracts.errors import RequestFailed
from shared.database import open_pool
from shared.origins import host_names
from shared.process import serve_health
from shared.settings import Settings

logger = logging.getLogger(__name__)

SHUTDOWN_SECONDS = 5.0
"""How long open requests may take to finish when the process is told to stop."""


class Gateway:
    """What one process holds."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._receipts: ReceiptReader | None = None
        self._hub: Hub | None = None

    def readiness(self) -> dict[str, str]:
        """What is not ready, by part."""
        if self._receipts is None or self._hub is None:
            return {"database": "waiting for PostgreSQL to tell the settings; has it been migrated?"}
        reasons = {}
        if not self._receipts.connected:
            reasons["redis"] = "waiting for Redis"
        if self._hub.epoch is None:
            reasons["reader"] = "waiting for a reader to tell the epoch"
        return reasons

    async def serve(self) -> None:
        """Serves until it is cancelled."""
        health = await serve_health(self._settings, self.readiness)
        try:
            partitions = await read_partitions(self._settings.database_url)
            database = await open_pool(self._settings.database_url, self._settings.database_pool, "gateway")
            try:
                await self._serve(partitions, database)
            finally:
                await database.close()
        finally:
            await health.cleanup()

    async def _serve(self, partitions: int, database: asyncpg.Pool) -> None:
        settings = self._settings
        broker = open_broker(settings.redis_url)
        clients = [connect(settings.redis_url) for _ in range(2)]
        positions = KnownPositions()
        inbox = ReplyInbox(clients[0])
        source = Source(broker, inbox, positions, settings.request_timeout)
        hub = self._hub = Hub(source, positions)
        checks = Checks(hub, source, positions, partitions)
        receipts = self._receipts = ReceiptReader(clients[1], partitions)
        allowed = host_names(settings.allowed_hosts)
        control = Control(broker)
        control.listen(AccessChanged, checks.access_changed)
        application = build(allowed)
        application[SOURCE], application[HUB], application[CONTROL] = source, hub, control
        application[DATABASE] = database
        application[ACTIONS] = actions(source, hub)
        application[CONNECTIONS], application[READINESS] = Connections(), self.readiness
        application[AUTHENTICATION] = Disabled()
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
        await runner.setup()
        try:
            await web.TCPSite(runner, settings.host, settings.port).start()
            logger.info("listening on http://%s:%d", settings.host, settings.port)
            async with asyncio.TaskGroup() as group:
                group.create_task(GroupGuard(broker, settings.redis_url, ()).run())
                group.create_task(inbox.run())
                await _as_soon_as_redis_answers(receipts.start)
                group.create_task(receipts.run(Intake(hub, checks, partitions).receive))
                await _learn_epoch(hub)
                group.create_task(checks.run())
        finally:
            await runner.cleanup()
            await hub.stop()
            for client in clients:
                await client.aclose()


async def serve(settings: Settings) -> None:
    """Runs a gateway until it is cancelled."""
    await Gateway(settings).serve()


async def _as_soon_as_redis_answers(step: Callable[[], Awaitable[object]]) -> None:
    while True:
        try:
            await step()
        except BROKER_ERRORS:
            await asyncio.sleep(RETRY_SECONDS)
        else:
            return


async def _learn_epoch(hub: Hub) -> None:
    while hub.epoch is None:
        try:
            await hub.learn_epoch()
        except RequestFailed:
            await asyncio.sleep(RETRY_SECONDS)
