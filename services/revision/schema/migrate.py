"""Brings a database to this schema, one numbered file at a time, and says where it stands."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import asyncpg

from services.revision.schema.attaching import begin, judge, require_no_longer, require_tasks
from services.revision.schema.catalogue import found
from services.revision.schema.inventory import Inventory
from services.revision.schema.numbered import Migration, SchemaError, known_migrations
from services.revision.schema.statements import briefly, run_alone
from services.revision.schema.suitability import refuse_unsuitable
from services.revision.schema.triggers import ForeignTrigger, replace_counting

_LOCK = (7205, 2)
_LOCK_POLL = 0.25

_SESSION = ("statement_timeout = 0", "lock_timeout = 0", "search_path = public")

_BOOKKEEPING = """
CREATE TABLE IF NOT EXISTS conversation.migrations (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
"""


class DatabaseNewer(SchemaError):
    """The database was migrated by a later version of this program."""

    def __init__(self, database: int, program: int) -> None:
        super().__init__(
            f"the database is at schema version {database}, this program knows versions up to {program}: "
            f"run the program version that migrated it, or a later one"
        )
        self.database = database
        self.program = program


class MigrationChanged(SchemaError):
    """A file differs from the one that was applied under its version."""

    def __init__(self, version: int, name: str) -> None:
        super().__init__(
            f"migration {version} ({name}) differs from the file that was applied to this database: "
            f"restore the original file and put the change into a new migration"
        )
        self.version = version


@dataclass(frozen=True)
class MigrationReport:
    """`applied`: the versions this run applied, in order. `version`: where the database stands now. `replaced`: the
    triggers of others that ours stand in place of since this run.
    """

    applied: tuple[int, ...]
    version: int
    replaced: tuple[ForeignTrigger, ...] = ()


@dataclass(frozen=True)
class SchemaStatus:
    """`current`: the database's version, 0 for none. `latest`: the newest that this program knows."""

    current: int
    latest: int


async def migrate(
    database: str | asyncpg.Connection,
    *,
    progress: Callable[[Migration], None] | None = None,
    migrations: Sequence[Migration] | None = None,
    require_task: bool = False,
) -> MigrationReport:
    """Applies what the database lacks; `progress` is called before each file. Two runners at once take turns.

    `database`: a URL, or a connection that is outside a transaction. `require_task`: where tables of the application
    that are there let `task_id` be NULL, it no longer may.
    Raises `SchemaError` (a newer database, a changed file, tables that cannot be attached, locks that stay taken), or
    what PostgreSQL says of a statement.
    """
    known = known_migrations() if migrations is None else tuple(migrations)
    async with _connected(database) as connection, alone(connection):
        pending = await pending_migrations(connection, known)
        inventory = Inventory(known)
        if pending:
            await _attach(connection, inventory, Inventory(pending), require_task=require_task)
        await connection.execute(_BOOKKEEPING)
        for migration in pending:
            if progress is not None:
                progress(migration)
            await _apply(connection, migration)
        replaced = await replace_counting(connection, inventory)
    return MigrationReport(tuple(m.version for m in pending), known[-1].version, replaced)


async def status(connection: asyncpg.Connection) -> SchemaStatus:
    """Where the database stands, without changing it."""
    return SchemaStatus(max(await _applied(connection), default=0), known_migrations()[-1].version)


async def pending_migrations(connection: asyncpg.Connection, known: Sequence[Migration]) -> tuple[Migration, ...]:
    """The files that the database lacks, without changing it. Raises `DatabaseNewer` and `MigrationChanged`."""
    applied = await _applied(connection)
    newest = max(applied, default=0)
    if newest > known[-1].version:
        raise DatabaseNewer(newest, known[-1].version)
    for migration in known:
        if applied.get(migration.version, migration.checksum) != migration.checksum:
            raise MigrationChanged(migration.version, migration.name)
    return tuple(m for m in known if m.version not in applied)


@asynccontextmanager
async def alone(connection: asyncpg.Connection) -> AsyncIterator[None]:
    """Holds the lock of whoever changes the schema. Tried, never waited for: a waiting statement keeps its snapshot,
    and a concurrent index build of the runner ahead would wait for that snapshot for ever.

    Meanwhile the session is as statements here expect it, whatever its role or database sets: what builds an index
    may take long, and definitions are read and made again in the same search path.
    """
    for setting in _SESSION:
        await connection.execute(f"SET {setting}")
    while not await connection.fetchval("SELECT pg_try_advisory_lock($1::int, $2::int)", *_LOCK):  # noqa: ASYNC110 - another process
        await asyncio.sleep(_LOCK_POLL)
    try:
        yield
    finally:
        if not connection.is_closed():
            await connection.execute("SELECT pg_advisory_unlock($1::int, $2::int)", *_LOCK)


async def _attach(
    connection: asyncpg.Connection, inventory: Inventory, pending: Inventory, *, require_task: bool
) -> None:
    catalogue = await found(connection, inventory.tables)
    attachment = judge(catalogue, inventory)
    await refuse_unsuitable(connection, catalogue, inventory, pending)
    await begin(connection, inventory)
    if require_task:
        await require_tasks(connection, catalogue, inventory)
        attachment = judge(await found(connection, inventory.tables), inventory)
    else:
        await require_no_longer(connection, catalogue, inventory)
    for statement in attachment.statements(inventory.identities):
        await run_alone(connection, "building the replica identity", statement)


async def _applied(connection: asyncpg.Connection) -> dict[int, str]:
    if not await connection.fetchval("SELECT to_regclass('conversation.migrations') IS NOT NULL"):
        return {}
    rows = await connection.fetch("SELECT version, checksum FROM conversation.migrations")
    return {row["version"]: row["checksum"] for row in rows}


async def _apply(connection: asyncpg.Connection, migration: Migration) -> None:
    what = f"migration {migration.version} ({migration.name})"
    if migration.transactional:

        async def work() -> None:
            await connection.execute(migration.sql)
            await _record(connection, migration)

        await briefly(connection, what, work)
        return
    for statement in migration.statements():
        await run_alone(connection, what, statement)
    await _record(connection, migration)


async def _record(connection: asyncpg.Connection, migration: Migration) -> None:
    await connection.execute(
        "INSERT INTO conversation.migrations (version, name, checksum) VALUES ($1, $2, $3)",
        migration.version,
        migration.name,
        migration.checksum,
    )


@asynccontextmanager
async def _connected(database: str | asyncpg.Connection) -> AsyncIterator[asyncpg.Connection]:
    if not isinstance(database, str):
        yield database
        return
    connection = await asyncpg.connect(database, server_settings={"application_name": "kandev-conversation/migrate"})
    try:
        yield connection
    finally:
        await connection.close()
