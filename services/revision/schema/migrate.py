"""Brings a database to this schema, one numbered file at a time, and says where it stands."""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg

OUTSIDE_A_TRANSACTION = "-- run: outside a transaction"
"""First line of a file whose statements run one by one, each committed alone, and each fit to be repeated."""

_LOCK = (7205, 2)
_LOCK_POLL = 0.25
# A file that cannot get its table locks within this time gives way to the writers queued behind it, and tries again.
_LOCK_TIMEOUT = "1s"
_LOCK_ATTEMPTS = 60
_LOCK_PAUSE = 1.0

_FILE_NAME = re.compile(r"(?P<version>\d{4})_(?P<name>[a-z0-9_]+)\.sql")
_CONCURRENT_INDEX = re.compile(
    r"CREATE\s+(?:UNIQUE\s+)?INDEX\s+CONCURRENTLY\s+IF\s+NOT\s+EXISTS\s+(?P<name>\w+)", re.IGNORECASE
)
_COMMENT_LINE = re.compile(r"^\s*--.*$", re.MULTILINE)

# The index may belong to any schema of the search path; a leftover of a failed build is marked invalid.
_INVALID_INDEX = """
SELECT format('%I.%I', n.nspname, c.relname)
  FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relname = $1 AND n.nspname = 'public' AND NOT i.indisvalid
"""

_BOOKKEEPING = """
CREATE SCHEMA IF NOT EXISTS conversation;
CREATE TABLE IF NOT EXISTS conversation.migrations (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
"""


class SchemaError(Exception):
    """The database cannot be brought to this schema; the text says what to do."""


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


class MigrationBlocked(SchemaError):
    """The locks that a file needs stayed taken."""

    def __init__(self, version: int, name: str) -> None:
        super().__init__(
            f"migration {version} ({name}) could not lock its tables in {_LOCK_ATTEMPTS} attempts: "
            f"end the long transactions that hold them (pg_stat_activity) and run it again"
        )
        self.version = version


@dataclass(frozen=True)
class Migration:
    """One file: `version` from its name, `checksum` the SHA-256 of its bytes in hex."""

    version: int
    name: str
    sql: str
    checksum: str

    @property
    def transactional(self) -> bool:
        """Whether the file runs as one transaction."""
        return not self.sql.startswith(OUTSIDE_A_TRANSACTION)

    def statements(self) -> tuple[str, ...]:
        """The statements of a file that runs outside a transaction; such a file holds no function bodies."""
        bare = _COMMENT_LINE.sub("", self.sql)
        return tuple(statement for part in bare.split(";") if (statement := part.strip()))


@dataclass(frozen=True)
class MigrationReport:
    """`applied`: the versions this run applied, in order. `version`: where the database stands now."""

    applied: tuple[int, ...]
    version: int


@dataclass(frozen=True)
class SchemaStatus:
    """`current`: the database's version, 0 for none. `latest`: the newest that this program knows."""

    current: int
    latest: int


def known_migrations(folder: Path | None = None) -> tuple[Migration, ...]:
    """The numbered files of `folder` (by default our own), by version. `SchemaError`: a number used twice."""
    found: dict[int, Migration] = {}
    for path in sorted((folder or Path(__file__).parent).glob("*.sql")):
        match = _FILE_NAME.fullmatch(path.name)
        if match is None:
            raise SchemaError(f"{path.name}: expected a name like 0001_tables.sql")
        content = path.read_bytes()
        version = int(match["version"])
        if version in found:
            raise SchemaError(
                f"{path.name}: version {version} is already {found[version].name}; give one of them the next number"
            )
        found[version] = Migration(version, match["name"], content.decode(), hashlib.sha256(content).hexdigest())
    return tuple(found.values())


async def migrate(
    database: str | asyncpg.Connection,
    *,
    progress: Callable[[Migration], None] | None = None,
    migrations: Sequence[Migration] | None = None,
) -> MigrationReport:
    """Applies what the database lacks; `progress` is called before each file. Two runners at once take turns.

    `database`: a URL, or a connection that is outside a transaction.
    Raises `DatabaseNewer`, `MigrationChanged`, `MigrationBlocked`, or what PostgreSQL says of a statement.
    """
    known = known_migrations() if migrations is None else tuple(migrations)
    async with _connected(database) as connection, _alone(connection):
        await connection.execute(_BOOKKEEPING)
        pending = _pending(known, await _applied(connection))
        for migration in pending:
            if progress is not None:
                progress(migration)
            await _apply(connection, migration)
    return MigrationReport(tuple(m.version for m in pending), known[-1].version)


async def status(connection: asyncpg.Connection) -> SchemaStatus:
    """Where the database stands, without changing it."""
    current = 0
    if await connection.fetchval("SELECT to_regclass('conversation.migrations') IS NOT NULL"):
        current = await connection.fetchval("SELECT coalesce(max(version), 0) FROM conversation.migrations")
    return SchemaStatus(current, known_migrations()[-1].version)


def _pending(known: Sequence[Migration], applied: dict[int, str]) -> tuple[Migration, ...]:
    newest = max(applied, default=0)
    if newest > known[-1].version:
        raise DatabaseNewer(newest, known[-1].version)
    for migration in known:
        if applied.get(migration.version, migration.checksum) != migration.checksum:
            raise MigrationChanged(migration.version, migration.name)
    return tuple(m for m in known if m.version not in applied)


async def _applied(connection: asyncpg.Connection) -> dict[int, str]:
    rows = await connection.fetch("SELECT version, checksum FROM conversation.migrations")
    return {row["version"]: row["checksum"] for row in rows}


async def _apply(connection: asyncpg.Connection, migration: Migration) -> None:
    if migration.transactional:
        await _apply_whole(connection, migration)
        return
    for statement in migration.statements():
        if index := _CONCURRENT_INDEX.match(statement):
            for leftover in await connection.fetch(_INVALID_INDEX, index["name"]):
                await connection.execute(f"DROP INDEX CONCURRENTLY {leftover[0]}")
        await connection.execute(statement)
    await _record(connection, migration)


async def _apply_whole(connection: asyncpg.Connection, migration: Migration) -> None:
    for _ in range(_LOCK_ATTEMPTS):
        try:
            async with connection.transaction():
                await connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
                await connection.execute(migration.sql)
                await _record(connection, migration)
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            await asyncio.sleep(_LOCK_PAUSE)
        else:
            return
    raise MigrationBlocked(migration.version, migration.name)


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


@asynccontextmanager
async def _alone(connection: asyncpg.Connection) -> AsyncIterator[None]:
    """Holds the runners' lock. Tried, never waited for: a waiting statement keeps its snapshot, and a concurrent index
    build of the runner ahead would wait for that snapshot for ever."""
    while not await connection.fetchval("SELECT pg_try_advisory_lock($1::int, $2::int)", *_LOCK):  # noqa: ASYNC110 - another process
        await asyncio.sleep(_LOCK_POLL)
    try:
        yield
    finally:
        if not connection.is_closed():
            await connection.execute("SELECT pg_advisory_unlock($1::int, $2::int)", *_LOCK)
