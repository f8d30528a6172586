"""The plugins that are installed, in memory: asked for every request and every frame, so never a query."""

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from services.gateway.plugins.manifest import Manifest
from services.gateway.plugins.store import Record, Store
from shared.contracts.control import PluginChanged
from shared.contracts.errors import kinds
from shared.database import LOST

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""How often the table is looked at, whatever the control stream says: a change by plain SQL, or one whose entry was
lost, acts within this time.
"""

_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._-]")

Listener = Callable[[frozenset[str]], None]


@dataclass(frozen=True, slots=True)
class ActivePlugin:
    """A plugin in use. `generation`: microseconds since 1970 of this installation; another one is another generation.

    `package_hash` names its files.
    """

    id: str
    version: str
    generation: int
    package_hash: str
    manifest: Manifest

    def may_read(self, resource: str) -> bool:
        """Whether its manifest asks for reading this resource."""
        return resource in self.manifest.capabilities.api_read

    @property
    def user_state(self) -> bool:
        """Whether it may keep state for each user."""
        return self.manifest.capabilities.user_state

    @property
    def asset_version(self) -> str:
        """The `v` of the URLs of its files: another package, even of the same version, has another one."""
        return f"{_NOT_PLAIN.sub('_', self.version)}-{self.package_hash[:12]}"


class Registry:
    """Follows the table of plugins. Use `run` as a task; until its first look there is no plugin."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._stamp: str | None = None
        self._installed: Mapping[str, Record] = {}
        self._active: Mapping[str, ActivePlugin] = {}
        self._listeners: list[Listener] = []
        self._looking = asyncio.Lock()
        self._away = False

    def active(self, plugin_id: str) -> ActivePlugin | None:
        """The plugin, if it is active."""
        return self._active.get(plugin_id)

    def all_active(self) -> Sequence[ActivePlugin]:
        """Every active plugin, by id."""
        return tuple(self._active.values())

    def installed(self, plugin_id: str) -> Record | None:
        """The plugin, in whichever state."""
        return self._installed.get(plugin_id)

    def all_installed(self) -> Sequence[Record]:
        """Every plugin, by id."""
        return tuple(self._installed.values())

    def listen(self, listener: Listener) -> None:
        """Calls `listener` with the ids of plugins that appeared, went or became another one. It must not raise."""
        self._listeners.append(listener)

    async def refresh(self) -> None:
        """Looks at the table. Raises one of `shared.database.LOST`, and leaves what is known, when it cannot."""
        async with self._looking:
            # The stamp comes first: a change that happens in between makes the next one differ.
            stamp = await self._store.stamp()
            if stamp != self._stamp:
                records = await self._store.all()
                self._stamp = stamp
                self._installed = {record.id: record for record in records}
                self._replace(_active(records))

    async def changed(self, _: PluginChanged) -> None:
        """Another gateway has changed a plugin, or this one."""
        await self._look()

    async def run(self) -> None:
        """Looks at the table again and again until it is cancelled."""
        while True:
            await self._look()
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        try:
            await self.refresh()
        except LOST as error:
            if not self._away:
                logger.warning("the plugins cannot be looked at (%s); those known stay", type(error).__name__)
            self._away = True
        else:
            self._away = False

    def _replace(self, found: Mapping[str, ActivePlugin]) -> None:
        before, self._active = self._active, found
        concerned = frozenset(name for name in before.keys() | found.keys() if before.get(name) != found.get(name))
        if concerned:
            for listener in self._listeners:
                listener(concerned)


def _active(records: Iterable[Record]) -> Mapping[str, ActivePlugin]:
    active = {}
    for record in records:
        if record.status != "active":
            continue
        try:
            manifest = Manifest.model_validate(record.manifest)
        except ValidationError as error:
            logger.warning("the stored manifest of plugin %s cannot be read (%s)", record.id, kinds(error))
            continue
        active[record.id] = ActivePlugin(record.id, record.version, record.installed_at, record.package_hash, manifest)
    return active
