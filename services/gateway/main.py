"""One gateway process."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import asyncpg
from aiohttp import web

from services.gateway.control import Control
from services.gateway.http.application import build
from services.gateway.http.keys import (
    ACCOUNTS,
    ACTIONS,
    AUTHENTICATION,
    BINDINGS,
    CONNECTIONS,
    CONTROL,
    CURSORS,
    DATABASE,
    HUB,
    LIMITS,
    PLUGIN_TOKENS,
    PLUGINS,
    READINESS,
    REGISTRY,
    SETTINGS,
    SOURCE,
    SOURCES,
    USER_STATE,
)
from services.gateway.http.socket import actions
from services.gateway.identity.authentication import Disabled
from services.gateway.identity.signing_in import SigningIn, enabled
from services.gateway.leaving import Leaving
from services.gateway.metrics import METRICS
from services.gateway.outlook import Outlook
from services.gateway.plugins.bindings import Bindings
from services.gateway.plugins.cache import Cache, cache_folder
from services.gateway.plugins.cursors import Cursors
from services.gateway.plugins.fetching import Sources
from services.gateway.plugins.keyring import Keyring
from services.gateway.plugins.lifecycle import Plugins
from services.gateway.plugins.registry import Registry
from services.gateway.plugins.store import Store
from services.gateway.plugins.user_state import UserState, notifying
from services.gateway.readings import read_open
from services.gateway.receipts.intake import Intake
from services.gateway.receipts.recalling import Recalling
from services.gateway.rpc.host import Host
from services.gateway.rpc.server import Server
from services.gateway.rpc.tokens import PluginTokens
from services.gateway.scopes.checks import Checks
from services.gateway.scopes.grants import Grants
from services.gateway.scopes.hub import Hub
from services.gateway.scopes.memory import Memory
from services.gateway.source.outgoing import Outgoing
from services.gateway.source.partitions import read_partitions
from services.gateway.source.positions import KnownPositions
from services.gateway.source.requests import Source
from services.gateway.websocket.limits import Limits
from services.gateway.websocket.registry import Connections
from shared.broker.connection import BROKER_ERRORS, RETRY_SECONDS, connect
from shared.broker.guarded import GroupGuard, open_broker
from shared.broker.presence import Presence
from shared.broker.receipts import ReceiptReader
from shared.broker.replies import ReplyInbox
from shared.contracts.control import AccessChanged, MembershipChanged, PluginChanged, UserStateChanged
from shared.contracts.errors import RequestFailed
from shared.database import LOST, open_pool
from shared.draining import Draining
from shared.metrics.declaring import Read
from shared.origins import host_names
from shared.process import serve_health
from shared.serving import Patience, Runner
from shared.settings import Settings

logger = logging.getLogger(__name__)

UNACCEPTED_CONNECTIONS = 4096
"""Connections that the system completes before this process takes them, if `net.core.somaxconn` allows as many. All
clients of another gateway may come in one moment; whoever finds no place tries again after one, three, seven seconds.
"""

SHUTDOWN_SECONDS = 5.0
"""How long open requests may take to finish when the process is told to stop."""


class Gateway:
    """What one process holds."""

    def __init__(self, settings: Settings, draining: Draining) -> None:
        self._settings = settings
        self._draining = draining
        self._outlook: Outlook | None = None
        self._receipts: ReceiptReader | None = None
        self._hub: Hub | None = None
        self._reads: Callable[[], Iterable[Read]] = tuple

    def readiness(self) -> dict[str, str]:
        """What is not ready, by part."""
        reasons = self._draining.reasons()
        if self._receipts is None or self._hub is None or self._outlook is None:
            return {**reasons, "database": "waiting for PostgreSQL to tell the settings; has it been migrated?"}
        if not self._receipts.connected:
            reasons["redis"] = "waiting for Redis"
        if self._hub.epoch is None:
            reasons["reader"] = "waiting for a reader to tell the epoch"
        return {**reasons, **self._outlook.reasons()}

    def reads(self) -> Iterable[Read]:
        """What is open now, for whoever reads the metrics."""
        return self._reads()

    async def serve(self) -> None:
        """Serves until it is cancelled."""
        health = await serve_health(self._settings, self.readiness, METRICS.registry)
        try:
            partitions = await read_partitions(self._settings.database_url)
            database = await open_pool(self._settings.database_url, self._settings.database_pool, "gateway")
            try:
                with cache_folder(self._settings.cache_dir) as packages, METRICS.reads(self.reads):
                    await self._serve(partitions, database, packages)
            finally:
                await database.close()
        finally:
            await health.cleanup()

    async def _serve(self, partitions: int, database: asyncpg.Pool, packages: Path) -> None:
        settings = self._settings
        broker = open_broker(settings.redis_url)
        clients = [connect(settings.redis_url) for _ in range(2)]
        positions, inbox = KnownPositions(), ReplyInbox(clients[0])
        source = Source(Outgoing(clients[0]), inbox, positions, settings.request_timeout)
        memory = Memory(settings.resume_megabytes << 20)
        receipts, earlier = ReceiptReader(clients[1], partitions), Recalling(clients[0], partitions)
        hub = Hub(source, positions, memory, earlier)
        checks = Checks(hub, source, positions, partitions)
        control, connections = Control(broker), Connections()
        self._reads = partial(read_open, hub, memory, connections, database)
        control.listen(AccessChanged, checks.access_changed)
        control.listen(MembershipChanged, checks.membership_changed)
        control.listen(UserStateChanged, notifying(connections))
        registry, plugins = await _plugins(settings, database, packages, control)
        keyring = await _keyring(database)
        controls = settings.test_controls != "off"
        application = build(_allowed_hosts(settings), port=settings.port, test_controls=controls)
        application[SOURCE], application[HUB], application[CONTROL] = source, hub, control
        application[DATABASE], application[REGISTRY], application[PLUGINS] = database, registry, plugins
        bindings, tokens = Bindings(keyring), PluginTokens(database, registry)
        application[ACTIONS] = actions(source, hub, Grants(registry, bindings, hub))
        application[BINDINGS], application[CURSORS], application[PLUGIN_TOKENS] = bindings, Cursors(keyring), tokens
        application[USER_STATE], application[SOURCES] = UserState(database), Sources(settings.plugin_sources)
        application[CONNECTIONS], application[READINESS] = connections, self.readiness
        application[LIMITS], application[SETTINGS] = _limits(settings), settings
        accounts = None if settings.auth == "disabled" else enabled(settings, database, connections, control)
        _authenticate(application, accounts)
        rpc = Server(settings, Host(source, tokens))
        runner = Runner(application, _patience(settings), access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
        await runner.setup()
        site, outlook = _site(runner, settings), Outlook(source, database, settings)
        try:
            await site.start()
            logger.info("listening on http://%s:%d", settings.host, settings.port)
            self._hub, self._receipts, self._outlook = hub, receipts, outlook
            # Requests and calls that are let end still wait for their answers: what brings those stops behind them.
            async with (
                asyncio.TaskGroup() as carrying,
                _ended(runner),
                rpc,
                self._draining.by(Leaving(settings, site, rpc, connections).drain),
                asyncio.TaskGroup() as group,
            ):
                carrying.create_task(GroupGuard(broker, settings.redis_url, ()).run())
                carrying.create_task(inbox.run())
                carrying.create_task(Presence(clients[0], "gateway").run())
                for part in (registry.run(), plugins.examine(), keyring.run(), connections.run(settings.idle_seconds)):
                    group.create_task(part)
                if accounts is not None:
                    group.create_task(accounts.watch.run())
                await _as_soon_as_it_answers(receipts.start, BROKER_ERRORS)
                group.create_task(receipts.run(Intake(hub, checks, partitions).receive))
                await _learn_epoch(hub)
                for part in (checks.run(), outlook.run()):
                    group.create_task(part)
        finally:
            # The runner's end does nothing the second time; the first is missing where it could not listen.
            for end in (runner.cleanup, hub.stop, source.close, earlier.close, *(client.aclose for client in clients)):
                await end()


def _allowed_hosts(settings: Settings) -> frozenset[str] | None:
    """Without accounts only known hosts may be named; with them, any, unless some are listed."""
    names = host_names(settings.allowed_hosts)
    return names if names or settings.auth == "disabled" else None


def _site(runner: web.BaseRunner, settings: Settings) -> web.TCPSite:
    return web.TCPSite(runner, settings.host, settings.port, backlog=UNACCEPTED_CONNECTIONS)


def _limits(settings: Settings) -> Limits:
    """Without accounts everybody is the one local user."""
    return Limits(
        everybody=settings.connections,
        address=settings.connections_per_address,
        user=None if settings.auth == "disabled" else settings.connections_per_user,
        scopes=settings.scopes_per_user,
    )


def _patience(settings: Settings) -> Patience:
    return Patience(head=settings.head_seconds, body=settings.body_seconds, vacant=settings.vacant_connections)


def _authenticate(application: web.Application, accounts: SigningIn | None) -> None:
    if accounts is None:
        application[AUTHENTICATION] = Disabled()
    else:
        application[AUTHENTICATION], application[ACCOUNTS] = accounts.authentication, accounts
        application.on_response_prepare.append(accounts.cookie.renew)


async def _plugins(
    settings: Settings, database: asyncpg.Pool, packages: Path, control: Control
) -> tuple[Registry, Plugins]:
    """With the plugins known: that an active one is not there, which its clients take for good, is never said."""
    store = Store(database)
    registry = Registry(store)
    control.listen(PluginChanged, registry.changed)
    await _as_soon_as_it_answers(registry.refresh, LOST)
    return registry, Plugins(store, registry, Cache(packages, store), control, settings.compat_version)


async def _keyring(database: asyncpg.Pool) -> Keyring:
    keyring = Keyring(database)
    await _as_soon_as_it_answers(keyring.refresh, LOST)
    return keyring


@asynccontextmanager
async def _ended(runner: Runner) -> AsyncIterator[None]:
    """Behind the block, requests in hand are answered, within their time, and connections closed."""
    try:
        yield
    finally:
        await runner.cleanup()


async def serve(settings: Settings, draining: Draining | None = None) -> None:
    """Runs a gateway until it is cancelled. Told to stop, it leaves its clients to others first."""
    await Gateway(settings, draining or Draining.of(settings)).serve()


async def _as_soon_as_it_answers(step: Callable[[], Awaitable[object]], away: tuple[type[Exception], ...]) -> None:
    while True:
        try:
            await step()
        except away:
            await asyncio.sleep(RETRY_SECONDS)
        else:
            return


async def _learn_epoch(hub: Hub) -> None:
    while hub.epoch is None:
        try:
            await hub.learn_epoch()
        except RequestFailed:
            await asyncio.sleep(RETRY_SECONDS)
