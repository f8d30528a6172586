"""Plugins and their packages in PostgreSQL: every statement on `gateway.plugins` and `gateway.plugin_packages`."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

import asyncpg
import orjson

from services.gateway.plugins.archive import Package
from services.gateway.plugins.states import Status

PACKAGE_SECONDS = 120.0
"""Longest time in which a package is written: some hundred times that of an ordinary statement's rows."""

SLICE_BYTES = 4 << 20
"""Packages are read in parts of this size, so that none is held in memory whole. The column is stored uncompressed, for
which PostgreSQL reads no more than the part.
"""

# xmin names the transaction that wrote a row as it stands: whatever changed it, plain SQL included, shows here.
_STAMP = "SELECT coalesce(string_agg(id || ' ' || xmin::text, ',' ORDER BY id), '') FROM gateway.plugins"

_FIELDS = "id, version, package_hash, manifest, status, signed, installed_at, updated_at, last_error, last_error_at"
_RECORD = f"SELECT {_FIELDS} FROM gateway.plugins"  # noqa: S608 - no input
_LOCKED = _RECORD + " WHERE id = $1 FOR UPDATE"
_ALL = _RECORD + " ORDER BY id"

_SLICE = "SELECT substr(archive, $2, $3) FROM gateway.plugin_packages WHERE hash = $1"

# One change at a time, of whichever plugin and gateway: they are rare, and one must not meet half of another.
_ALONE = "SELECT pg_advisory_xact_lock(7205, 9)"

_NEXT_GENERATION = """
SELECT setval('gateway.plugin_generations', greatest(
    nextval('gateway.plugin_generations'), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, $1::bigint + 1))
"""

_ADD_PACKAGE = """
INSERT INTO gateway.plugin_packages (hash, plugin_id, version, archive) VALUES ($1, $2, $3, $4)
    ON CONFLICT (hash) DO NOTHING
"""
_DROP_PACKAGES = "DELETE FROM gateway.plugin_packages WHERE plugin_id = $1 AND hash <> $2"

_PUT = f"""
INSERT INTO gateway.plugins (id, version, package_hash, manifest, status, signed, config, installed_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
    ON CONFLICT (id) DO UPDATE SET version = excluded.version, package_hash = excluded.package_hash,
       manifest = excluded.manifest, status = excluded.status, signed = excluded.signed, config = excluded.config,
       installed_at = excluded.installed_at, updated_at = clock_timestamp(), last_error = NULL, last_error_at = NULL
RETURNING {_FIELDS}
"""  # noqa: S608 - no input
_SET_STATUS = """
UPDATE gateway.plugins SET status = $2, updated_at = clock_timestamp(),
       last_error = $3, last_error_at = CASE WHEN $3::text IS NULL THEN NULL ELSE clock_timestamp() END
 WHERE id = $1
"""
_CONFIG = "SELECT config FROM gateway.plugins WHERE id = $1"
_CONFIGURED = f"SELECT {_FIELDS}, config FROM gateway.plugins WHERE id = $1"  # noqa: S608 - no input
_SET_CONFIG = "UPDATE gateway.plugins SET config = $2, updated_at = clock_timestamp() WHERE id = $1"
_DELETE = "DELETE FROM gateway.plugins WHERE id = $1"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Record:
    """An installed plugin as it is stored. Times are microseconds since 1970; `installed_at` is the generation.

    `manifest` is as it was validated at its installation. Its configuration is read apart: it may hold secrets.
    """

    id: str
    version: str
    package_hash: str
    manifest: Json
    status: Status
    signed: bool
    installed_at: int
    updated_at: int
    last_error: str | None
    last_error_at: int | None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """The record that a row of the table holds."""
        return cls(**{**row, "manifest": orjson.loads(row["manifest"])})


@dataclass(frozen=True, slots=True)
class NewPlugin:
    """A plugin as it is to be stored."""

    package: Package
    archive: bytes
    status: Status
    config: Json
    generation: int


class PackageMissing(Exception):
    """The database holds no package of this hash: its plugin was upgraded or removed meanwhile."""


class Change:
    """What may be done within one transaction that no other change of plugins overlaps."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection

    async def find(self, plugin_id: str) -> Record | None:
        """The plugin as it stands; nobody else changes it before the end."""
        row = await self._connection.fetchrow(_LOCKED, plugin_id)
        return None if row is None else Record.of(row)

    async def next_generation(self, previous: int = 0) -> int:
        """A moment later than every generation before it, of this plugin and of all others."""
        generation: int = await self._connection.fetchval(_NEXT_GENERATION, previous)
        return generation

    async def config(self, plugin_id: str) -> Json:
        """The configuration of a plugin that is there."""
        found: Json = orjson.loads(await self._connection.fetchval(_CONFIG, plugin_id))
        return found

    async def put(self, plugin: NewPlugin) -> Record:
        """Stores the plugin with its package and configuration, in place of an earlier one."""
        manifest = plugin.package.manifest
        await self._connection.execute(
            _ADD_PACKAGE, plugin.package.hash, manifest.id, manifest.version, plugin.archive, timeout=PACKAGE_SECONDS
        )
        row = await self._connection.fetchrow(
            _PUT,
            manifest.id,
            manifest.version,
            plugin.package.hash,
            manifest.model_dump_json(),
            plugin.status,
            plugin.package.signed,
            orjson.dumps(plugin.config).decode(),
            plugin.generation,
        )
        await self._connection.execute(_DROP_PACKAGES, manifest.id, plugin.package.hash)
        return Record.of(row)

    async def set_status(self, plugin_id: str, status: Status, error: str | None = None) -> None:
        """Sets the status. `error`: why it is `error`; otherwise the last one is forgotten."""
        await self._connection.execute(_SET_STATUS, plugin_id, status, error)

    async def set_config(self, plugin_id: str, config: Json) -> None:
        """Replaces the configuration."""
        await self._connection.execute(_SET_CONFIG, plugin_id, orjson.dumps(config).decode())

    async def remove(self, plugin_id: str) -> None:
        """Removes the plugin with its configuration, its users' state and its packages."""
        await self._connection.execute(_DELETE, plugin_id)
        await self._connection.execute(_DROP_PACKAGES, plugin_id, "")


class Store:
    """Reads of plugins, and the one way to change them. Raises what asyncpg raises."""

    def __init__(self, database: asyncpg.Pool) -> None:
        self._database = database

    async def stamp(self) -> str:
        """A text that is another one after every change of any plugin."""
        stamp: str = await self._database.fetchval(_STAMP)
        return stamp

    async def all(self) -> list[Record]:
        """Every installed plugin, by id."""
        return [Record.of(row) for row in await self._database.fetch(_ALL)]

    async def configured(self, plugin_id: str) -> tuple[Record, Json] | None:
        """A plugin with its configuration; `None` where there is no such plugin."""
        row = await self._database.fetchrow(_CONFIGURED, plugin_id)
        if row is None:
            return None
        fields = dict(row)
        config: Json = orjson.loads(fields.pop("config"))
        return Record.of(fields), config

    @asynccontextmanager
    async def change(self) -> AsyncIterator[Change]:
        """One transaction: everything or nothing of what is done in it."""
        async with self._database.acquire() as connection, connection.transaction():
            await connection.execute(_ALONE)
            yield Change(connection)

    async def package(self, package_hash: str) -> AsyncIterator[bytes]:
        """The parts of a stored package. Raises PackageMissing."""
        position = 1
        while part := await self._database.fetchval(_SLICE, package_hash, position, SLICE_BYTES):
            yield part
            position += len(part)
        if position == 1:
            raise PackageMissing
