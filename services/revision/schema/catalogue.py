"""What stands in the database: read from its catalogue, and remembered from before the first file was applied."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import asyncpg

from services.revision.schema.inventory import Kind, Thing

EntryKind: TypeAlias = Kind | Literal["identity", "options", "replaced", "comment"]


class Entry(NamedTuple):
    """One thing as it stands. `definition`: what SQL would make it of; its type for a column."""

    kind: EntryKind
    relation: str
    name: str
    definition: str


MEMORY = """
CREATE SCHEMA IF NOT EXISTS conversation;
CREATE TABLE IF NOT EXISTS conversation.before (
    kind       text NOT NULL,
    relation   text NOT NULL,
    name       text NOT NULL,
    definition text NOT NULL,
    PRIMARY KEY (kind, relation, name)
);
"""
"""What stood in the source's tables before this program came, and each trigger that it replaced: what `detach` goes
back to.
"""

# Identity: the definition is pg_class.relreplident, the name that of the index. Columns: the type, and NOT NULL.
# Comment: that of a constraint, as a literal.
_FOUND = """
WITH tables AS (
    SELECT oid, relname::text AS relation, relreplident, reloptions FROM pg_catalog.pg_class
     WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND relname = ANY ($1))
SELECT 'table' AS kind, relation, '' AS name, '' AS definition FROM tables
UNION ALL
SELECT 'column', relation, a.attname::text,
       format_type(a.atttypid, a.atttypmod) || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
  FROM tables t JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid WHERE a.attnum > 0 AND NOT a.attisdropped
UNION ALL
SELECT 'index', relation, c.relname::text, pg_get_indexdef(c.oid)
  FROM tables t JOIN pg_catalog.pg_index i ON i.indrelid = t.oid JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
UNION ALL
SELECT 'constraint', relation, c.conname::text, pg_get_constraintdef(c.oid)
  FROM tables t JOIN pg_catalog.pg_constraint c ON c.conrelid = t.oid
UNION ALL
SELECT 'comment', relation, c.conname::text, quote_literal(obj_description(c.oid, 'pg_constraint'))
  FROM tables t JOIN pg_catalog.pg_constraint c ON c.conrelid = t.oid
 WHERE obj_description(c.oid, 'pg_constraint') IS NOT NULL
UNION ALL
SELECT 'trigger', relation, g.tgname::text, pg_get_triggerdef(g.oid)
  FROM tables t JOIN pg_catalog.pg_trigger g ON g.tgrelid = t.oid WHERE NOT g.tgisinternal
UNION ALL
SELECT 'options', relation, '', array_to_string(reloptions, ', ') FROM tables WHERE reloptions IS NOT NULL
UNION ALL
SELECT 'identity', relation,
       coalesce((SELECT c.relname::text FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
                  WHERE i.indrelid = t.oid AND i.indisreplident AND t.relreplident = 'i'), ''),
       relreplident::text FROM tables t
"""
_REMEMBER = """
INSERT INTO conversation.before (kind, relation, name, definition) VALUES ($1, $2, $3, $4)
ON CONFLICT (kind, relation, name) DO UPDATE SET definition = excluded.definition
"""


@dataclass(frozen=True)
class Catalogue:
    """Things by kind, table and name, with their definitions."""

    entries: Mapping[tuple[EntryKind, str, str], str]

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> "Catalogue":
        """The catalogue that holds these."""
        return cls({(entry.kind, entry.relation, entry.name): entry.definition for entry in entries})

    def __contains__(self, thing: Thing) -> bool:
        return tuple(thing) in self.entries

    def get(self, kind: EntryKind, relation: str, name: str = "") -> str | None:
        """The definition, or `None` where there is no such thing."""
        return self.entries.get((kind, relation, name))

    def of_kind(self, kind: EntryKind) -> tuple[Entry, ...]:
        """All things of a kind."""
        return tuple(Entry(*key, definition) for key, definition in self.entries.items() if key[0] == kind)

    def holds(self, table: str) -> bool:
        """Whether the table is there."""
        return ("table", table, "") in self.entries

    def nullable(self, table: str) -> frozenset[str]:
        """The table's columns that may be NULL."""
        return frozenset(
            entry.name
            for entry in self.of_kind("column")
            if entry.relation == table and not entry.definition.endswith(" NOT NULL")
        )


async def found(connection: asyncpg.Connection, tables: Sequence[str]) -> Catalogue:
    """What stands in these tables of the schema `public` now."""
    return Catalogue.of(Entry(*row) for row in await connection.fetch(_FOUND, list(tables)))


async def remember(connection: asyncpg.Connection, entries: Iterable[Entry]) -> None:
    """Keeps entries for `detach`."""
    await connection.executemany(_REMEMBER, [tuple(entry) for entry in entries])


async def remembered(connection: asyncpg.Connection) -> Catalogue:
    """What was kept; nothing where no table stood before, or where an earlier version did not keep it."""
    if not await connection.fetchval("SELECT to_regclass('conversation.before') IS NOT NULL"):
        return Catalogue({})
    rows = await connection.fetch("SELECT kind, relation, name, definition FROM conversation.before")
    return Catalogue.of(Entry(*row) for row in rows)
