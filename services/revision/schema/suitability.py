"""Whether a database can be attached at all: asked before anything is written, so that nothing is left half done."""

import re
from typing import Final

import asyncpg

from services.revision.schema.attaching import Unsuitable
from services.revision.schema.catalogue import Catalogue, found
from services.revision.schema.inventory import Inventory, Thing
from services.revision.schema.publications import narrow

_MEMORY_SCHEMA: Final = "conversation"

_KEYS: Final = {
    "workspaces": "id",
    "tasks": "id",
    "task_sessions": "id",
    "task_session_turns": "id",
    "task_session_messages": "id",
    "task_session_prompt_seq": "task_session_id",
    "conversation_session_revisions": "session_id",
}
"""What tells a row of each table: foreign keys refer to it, and the triggers insert rows unless they are there."""

_SESSION: Final = Thing(
    "constraint", "conversation_session_revisions", "conversation_session_revisions_session_id_fkey"
)
_ORDINAL: Final = Thing("index", "task_session_messages", "task_session_messages_prompt_seq")
"""What rows that are there may not agree with."""

_WRITTEN: Final = {
    "task_session_prompt_seq": ("task_session_id", "last_seq"),
    "conversation_session_revisions": ("session_id", "revision"),
}
"""Tables that the triggers insert into, for every writer, and the columns that they give."""

_MODIFIER: Final = re.compile(r"\(\d+\)")
_TEXTS: Final = ("text", "character varying")
_TIMES: Final = ("timestamp without time zone", "timestamp with time zone")
_NUMBERS: Final = ("integer", "bigint")
_TYPES: Final = {
    "id": _TEXTS,
    "session_id": _TEXTS,
    "task_session_id": _TEXTS,
    "task_id": _TEXTS,
    "workspace_id": _TEXTS,
    "author_type": _TEXTS,
    "created_at": _TIMES,
    "updated_at": _TIMES,
    "started_at": _TIMES,
    "prompt_seq": _NUMBERS,
    "last_seq": _NUMBERS,
    "revision": _NUMBERS,
}
"""By column, what the triggers can work with."""

_BOOLEANS: Final = ("boolean", "integer", "bigint", "smallint")
_READ: Final = {
    "task_sessions": {"is_passthrough": _BOOLEANS, "completed_at": _TIMES},
    "task_session_turns": {"metadata": _TEXTS, "completed_at": _TIMES, "route_generation": (*_NUMBERS, "smallint")},
    "task_session_messages": {"content": _TEXTS, "metadata": _TEXTS, "requests_input": _BOOLEANS},
}
"""By table and column, what readers, the tracker and commands can work with besides; integers other than 0 are true."""

_PLACES: Final = {"task_session_turns": "started_at", "task_session_messages": "created_at"}
"""The column that gives a row its place in its session's order: without it, no page could hold the row."""

_ENCODING: Final = "UTF8"
"""Of the database: the log is read as this, and clients order ids by its bytes."""

_KINDS: Final = """
SELECT c.relname::text FROM pg_catalog.pg_class c
 WHERE c.relnamespace = 'public'::regnamespace AND c.relname = ANY ($1) AND c.relkind <> 'r' ORDER BY 1
"""
_SCHEMAS: Final = "SELECT nspname::text FROM pg_catalog.pg_namespace WHERE nspname = ANY ($1) ORDER BY 1"
_ROLE: Final = """
SELECT current_user AS role, current_database() AS database, current_setting('server_encoding') AS encoding,
       current_setting(CASE WHEN $2 THEN 'default_transaction_read_only'
                            ELSE 'transaction_read_only' END)::boolean OR pg_is_in_recovery() AS read_only,
       has_database_privilege(current_database(), 'CREATE') AS may_create_schemas,
       has_schema_privilege('public', 'CREATE') AS may_create_tables,
       ARRAY(SELECT c.relname::text FROM pg_catalog.pg_class c
              WHERE c.relnamespace = 'public'::regnamespace AND c.relname = ANY ($1)
                AND NOT pg_has_role(c.relowner, 'USAGE') ORDER BY 1) AS not_owned,
       ARRAY(SELECT c.relname::text FROM pg_catalog.pg_class c
              WHERE c.relnamespace = 'public'::regnamespace AND c.relname = ANY ($1)
                AND c.relrowsecurity AND c.relforcerowsecurity
                AND NOT (SELECT rolsuper OR rolbypassrls FROM pg_catalog.pg_roles WHERE rolname = current_user)
              ORDER BY 1) AS hidden
"""
_KEYED: Final = """
SELECT c.relname::text, a.attname::text
  FROM pg_catalog.pg_index i
  JOIN pg_catalog.pg_class c ON c.oid = i.indrelid
  JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]
 WHERE c.relnamespace = 'public'::regnamespace AND c.relname = ANY ($1)
   AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indnkeyatts = 1 AND i.indpred IS NULL
"""
_DEMANDED: Final = """
SELECT c.relname::text AS relation, a.attname::text AS name
  FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
 WHERE c.relnamespace = 'public'::regnamespace AND c.relname = ANY ($1) AND a.attnum > 0 AND NOT a.attisdropped
   AND a.attnotnull AND NOT a.atthasdef AND a.attidentity = ''
"""
_ORPHANS: Final = """
SELECT count(*) FROM public.conversation_session_revisions r
 WHERE NOT EXISTS (SELECT FROM public.task_sessions s WHERE s.id = r.session_id)
"""
# As `number_prompts` does it: a prompt without an ordinal gets its place, and one that has one keeps it.
_CLASHES: Final = """
SELECT count(DISTINCT task_session_id)
  FROM (SELECT task_session_id
          FROM (SELECT task_session_id, CASE prompt_seq WHEN 0 THEN place ELSE prompt_seq END AS ordinal
                  FROM (SELECT task_session_id, prompt_seq,
                               row_number() OVER (PARTITION BY task_session_id, author_type = 'user'
                                                  ORDER BY created_at, id COLLATE "C") AS place
                          FROM public.task_session_messages WHERE author_type = 'user' OR prompt_seq > 0) p) n
         GROUP BY task_session_id, ordinal HAVING count(*) > 1) c
"""


async def refuse_unsuitable(
    connection: asyncpg.Connection,
    standing: Catalogue,
    inventory: Inventory,
    pending: Inventory,
    *,
    reading: bool = False,
) -> None:
    """Raises `Unsuitable` with what has to be settled first. Writes nothing.

    `inventory`: of all files; `pending`: of those that would be applied. `reading`: the caller's own transaction is
    read-only, which then says nothing about the server.
    """
    sentences = [
        *await _foreign(connection, inventory, pending),
        *await _rights(connection, inventory, reading),
    ]
    if not sentences:
        sentences = await _forms(connection, standing, inventory)
    if not sentences:
        sentences = await _rows(connection, standing, pending)
    if sentences:
        raise Unsuitable("; ".join(sentences))


async def unreadable(connection: asyncpg.Connection) -> list[str]:
    """Columns whose rows triggers, readers or the tracker would fail on: sentences that say what to change. For a
    database that was attached before it was asked, or whose tables have been changed since.
    """
    return _unreadable(await found(connection, list(_KEYS)))


async def _foreign(connection: asyncpg.Connection, inventory: Inventory, pending: Inventory) -> list[str]:
    """What bears one of our names and is something else."""
    others = await connection.fetch(_KINDS, list(inventory.tables))
    known = await connection.fetchval(
        "SELECT coalesce(to_regclass('conversation.before'), to_regclass('conversation.migrations')) IS NOT NULL"
    )
    made = [schema for schema in pending.schemas if schema != _MEMORY_SCHEMA or not known]
    schemas = await connection.fetch(_SCHEMAS, made)
    return [
        *(f"public.{row[0]} is no plain table (partitioned ones and views cannot be attached)" for row in others),
        *(f"a schema {row[0]} is there that is not ours: rename it" for row in schemas),
    ]


async def _rights(connection: asyncpg.Connection, inventory: Inventory, reading: bool) -> list[str]:
    row = await connection.fetchrow(_ROLE, list(inventory.tables), reading)
    wants = (
        (row["read_only"], "the server lets nobody write here: connect to the primary, without read-only transactions"),
        (
            row["encoding"] != _ENCODING,
            f"the encoding of {row['database']} is {row['encoding']}, not {_ENCODING}: move the tables to a database "
            f"with ENCODING '{_ENCODING}'",
        ),
        (not row["may_create_schemas"], f"the role {row['role']} may not create schemas in {row['database']}"),
        (not row["may_create_tables"], f"the role {row['role']} may not create tables in the schema public"),
        (row["not_owned"], f"the role {row['role']} does not own {', '.join(row['not_owned'])}"),
        (
            row["hidden"],
            f"row security is forced upon the owner of {', '.join(row['hidden'])}, and would hide rows from the "
            "triggers: ALTER TABLE … NO FORCE ROW LEVEL SECURITY, or a role with BYPASSRLS",
        ),
    )
    return [sentence for wanting, sentence in wants if wanting]


async def _forms(connection: asyncpg.Connection, standing: Catalogue, inventory: Inventory) -> list[str]:
    """Tables that our triggers, which run for every writer, would fail on."""
    keyed = {tuple(row) for row in await connection.fetch(_KEYED, list(_KEYS))}
    demanded = await connection.fetch(_DEMANDED, list(_WRITTEN))
    return [
        *_unreadable(standing),
        *(
            f"{column} of {table} is not unique by itself: make it the primary key"
            for table, column in _KEYS.items()
            if standing.holds(table) and (table, column) not in keyed
        ),
        *(
            f"{row['name']} of {row['relation']} must be given, which triggers cannot do: give it a default"
            for row in demanded
            if row["name"] not in _WRITTEN[row["relation"]]
        ),
        *await narrow(connection, standing, inventory),
    ]


def _unreadable(standing: Catalogue) -> list[str]:
    sentences = []
    for entry in standing.of_kind("column"):
        if entry.relation not in _KEYS:
            continue
        wanted = _READ.get(entry.relation, {}).get(entry.name) or _TYPES.get(entry.name)
        kind = entry.definition.removesuffix(" NOT NULL")
        if wanted is not None and _MODIFIER.sub("", kind) not in wanted:
            sentences.append(f"{entry.name} of {entry.relation} is of the type {kind}, not {' or '.join(wanted)}")
    sentences += [
        f"{column} of {table} may be NULL, and gives rows their place: "
        f"ALTER TABLE {table} ALTER COLUMN {column} SET NOT NULL"
        for table, column in _PLACES.items()
        if column in standing.nullable(table)
    ]
    return sentences


async def _rows(connection: asyncpg.Connection, standing: Catalogue, pending: Inventory) -> list[str]:
    """Rows that constraints and indexes to come would not allow."""
    sentences = []
    linked = standing.holds(_SESSION.relation) and standing.holds("task_sessions") and _SESSION in pending.things
    if linked and (orphans := await connection.fetchval(_ORPHANS)):
        sentences.append(
            f"{orphans:,} of conversation_session_revisions belong to no session: delete those whose session_id no row "
            "of task_sessions has"
        )
    numbered = standing.get("column", _ORDINAL.relation, "prompt_seq") is not None
    if numbered and _ORDINAL in pending.things and (clashes := await connection.fetchval(_CLASHES)):
        sentences.append(
            f"two prompts of one session have, or would get, the same ordinal, in {clashes:,} sessions: number their "
            "prompts anew, by created_at and id from 1, or set prompt_seq of them all to 0"
        )
    return sentences
