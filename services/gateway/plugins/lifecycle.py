"""What may be done with plugins, and what has to hold before it is: the only way by which the gateway changes them."""

import asyncio
import logging
from pathlib import Path

from services.gateway.control import Control
from services.gateway.plugins.archive import Package, PackageRefused, inspect
from services.gateway.plugins.cache import Cache, CacheUnusable, Files, PackageDamaged
from services.gateway.plugins.configuration import check_config, unkeepable, with_defaults
from services.gateway.plugins.manifest import Manifest
from services.gateway.plugins.masking import Config, MaskRefused, carried, masked, restored
from services.gateway.plugins.registry import ActivePlugin, Registry
from services.gateway.plugins.settings_schema import Schema, schema_problems
from services.gateway.plugins.states import Status, after_upgrade, may_become
from services.gateway.plugins.store import Change, NewPlugin, PackageMissing, Record, Store
from services.gateway.plugins.versions import unmet_requirement
from shared.contracts.control import PluginChanged
from shared.contracts.errors import RequestFailed
from shared.database import LOST

logger = logging.getLogger(__name__)

_ALL_SECRET: Schema = {"type": "object", "additionalProperties": {"writeOnly": True}}

UNKNOWN = "there is no such plugin"

BROKEN = (PackageMissing, PackageDamaged, PackageRefused)
"""Why a stored package cannot be served: faults of what is stored, and not of this moment."""


class Plugins:
    """Installs, switches, configures and removes plugins. Every change is one transaction, announced once it is
    committed, and known here before the caller is answered.

    Methods raise RequestFailed. `host_version`: what plugins may require of.
    """

    def __init__(self, store: Store, registry: Registry, cache: Cache, control: Control, host_version: str) -> None:
        self._store = store
        self._registry = registry
        self._cache = cache
        self._control = control
        self._host_version = host_version
        # Each holds an archive in memory for as long as it is written.
        self._installing = asyncio.Lock()

    async def install(self, archive: Path) -> tuple[Record, tuple[str, ...]]:
        """Installs the package, or puts it in place of another version of its plugin, which stays as it is when this
        one is refused. Settings and users' state survive an upgrade. With the record come the notes on the manifest.
        """
        async with self._installing:
            package = await self._inspected(archive)
            content = await asyncio.to_thread(archive.read_bytes)
            async with self._store.change() as change:
                record = await self._put(change, package, content)
        await self._announce(record.id)
        return record, package.notes

    async def enable(self, plugin_id: str) -> None:
        """Makes a plugin active, if its package can still be served."""
        async with self._store.change() as change:
            record = await _able(change, plugin_id, "active")
        # Apart from the transactions: unpacking takes a while, and connections of its own.
        try:
            problem = await self._problem(record)
        except CacheUnusable as unusable:
            raise RequestFailed("unavailable", str(unusable)) from None
        async with self._store.change() as change:
            now = await _able(change, plugin_id, "active")
            if now.installed_at != record.installed_at:
                raise RequestFailed("conflict", "the plugin was upgraded meanwhile; look at it again")
            await change.set_status(plugin_id, "active" if problem is None else "error", problem)
        await self._announce(plugin_id)
        if problem is not None:
            raise RequestFailed("conflict", f"the plugin cannot be enabled: {problem}")

    async def disable(self, plugin_id: str) -> None:
        """Takes a plugin out of use. Everything of it is kept."""
        async with self._store.change() as change:
            await _able(change, plugin_id, "disabled")
            await change.set_status(plugin_id, "disabled")
        await self._announce(plugin_id)

    async def remove(self, plugin_id: str) -> None:
        """Removes a plugin with its package, its settings and its users' state."""
        async with self._store.change() as change:
            await _found(change, plugin_id)
            await change.remove(plugin_id)
        await self._announce(plugin_id)

    async def config(self, plugin_id: str) -> Config:
        """A plugin's settings in force, defaults among them, secrets masked."""
        found = await self._store.configured(plugin_id) if _possible(plugin_id) else None
        if found is None:
            raise RequestFailed("not_found", UNKNOWN)
        record, config = found
        schema = _schema(record)
        return masked(schema, with_defaults(schema, config))

    async def configure(self, plugin_id: str, submitted: Config) -> None:
        """Replaces a plugin's settings. A secret that comes as its mask stays what it is."""
        if problem := unkeepable(submitted):
            raise _unfit((problem,))
        async with self._store.change() as change:
            record = await _found(change, plugin_id)
            # Apart: settings at their bounds take long enough for others to notice.
            config = await asyncio.to_thread(_meant, _schema(record), submitted, await change.config(plugin_id))
            await change.set_config(plugin_id, config)
        await self._announce(plugin_id)

    async def files(self, plugin: ActivePlugin) -> Files:
        """The files of an active plugin. One whose package is broken comes into the state `error`."""
        try:
            return await self._cache.files(plugin.package_hash)
        except CacheUnusable as unusable:
            raise RequestFailed("unavailable", str(unusable)) from None
        except BROKEN as broken:
            await self._fail(plugin.id, plugin.generation, _sentence(broken))
            raise RequestFailed("unavailable", "plugin is not active") from None

    def forget_files(self, plugin: ActivePlugin) -> None:
        """The unpacked files of a plugin are not all there: whoever asks next has them unpacked again."""
        self._cache.forget(plugin.package_hash)

    async def examine(self) -> None:
        """Looks once at every active plugin, so that the first to ask for its files need not wait, and brings those
        that cannot be served to the state `error`. What fails for the moment is looked at when it is asked for.
        """
        try:
            await self._registry.refresh()
            for record in self._registry.all_installed():
                if record.status == "active" and (problem := await self._problem(record)) is not None:
                    await self._fail(record.id, record.installed_at, problem)
        except (CacheUnusable, *LOST) as error:
            logger.warning("the plugins' packages could not be looked at (%s)", type(error).__name__)

    async def _inspected(self, archive: Path) -> Package:
        try:
            package = await asyncio.to_thread(inspect, archive)
        except PackageRefused as refused:
            raise RequestFailed("invalid_query", refused.message) from None
        if reason := unmet_requirement(package.manifest.min_kandev_version, self._host_version):
            raise RequestFailed("invalid_query", reason)
        return package

    async def _put(self, change: Change, package: Package, content: bytes) -> Record:
        manifest = package.manifest
        before = await change.find(manifest.id)
        if before is not None and before.version == manifest.version:
            raise RequestFailed("conflict", f"version {manifest.version} of plugin {manifest.id} is installed already")
        config: Config = {}
        if before is not None:
            config = carried(_schema(before), manifest.config_schema, await change.config(manifest.id))
        return await change.put(
            NewPlugin(
                package,
                content,
                status="active" if before is None else after_upgrade(before.status),
                config=config,
                generation=await change.next_generation(0 if before is None else before.installed_at),
            )
        )

    async def _problem(self, record: Record) -> str | None:
        """Why the plugin's package cannot be served here."""
        minimum = str(record.manifest.get("min_kandev_version", ""))
        if reason := unmet_requirement(minimum, self._host_version):
            return reason
        try:
            await self._cache.files(record.package_hash)
        except BROKEN as broken:
            return _sentence(broken)
        return None

    async def _fail(self, plugin_id: str, generation: int, problem: str) -> None:
        async with self._store.change() as change:
            now = await change.find(plugin_id)
            if now is None or now.installed_at != generation or not may_become(now.status, "error"):
                return
            await change.set_status(plugin_id, "error", problem)
        logger.warning("plugin %s is not active any more: %s", plugin_id, problem)
        await self._announce(plugin_id)

    async def _announce(self, plugin_id: str) -> None:
        await self._control.announce(PluginChanged(plugin_id=plugin_id))
        await self._registry.changed(PluginChanged(plugin_id=plugin_id))


def _meant(schema: Schema | None, submitted: Config, stored: Config) -> Config:
    """The settings to keep. Raises RequestFailed."""
    try:
        config = restored(schema, submitted, stored)
    except MaskRefused as refused:
        raise _unfit(refused.problems) from None
    if problems := check_config(schema, config):
        raise _unfit(problems)
    return config


def _unfit(problems: tuple[str, ...]) -> RequestFailed:
    return RequestFailed("invalid_query", "; ".join(f"config: {problem}" for problem in problems))


def _possible(plugin_id: str) -> bool:
    """No plugin has an id that PostgreSQL cannot hold: such a one is not asked for."""
    return "\x00" not in plugin_id


async def _found(change: Change, plugin_id: str) -> Record:
    record = await change.find(plugin_id) if _possible(plugin_id) else None
    if record is None:
        raise RequestFailed("not_found", UNKNOWN)
    return record


async def _able(change: Change, plugin_id: str, wanted: Status) -> Record:
    record = await _found(change, plugin_id)
    if record.status == wanted:
        raise RequestFailed("conflict", f"the plugin is {wanted} already")
    if not may_become(record.status, wanted):
        raise RequestFailed("conflict", f"a plugin that is {record.status} cannot become {wanted}")
    return record


def _schema(record: Record) -> Schema | None:
    """What describes the plugin's settings. Where a stored schema keeps no rules of its own, all of them are secret."""
    schema = Manifest.model_validate(record.manifest).config_schema
    return schema if schema is None or not schema_problems(schema) else _ALL_SECRET


def _sentence(broken: Exception) -> str:
    return "the stored package is gone" if isinstance(broken, PackageMissing) else str(broken)
