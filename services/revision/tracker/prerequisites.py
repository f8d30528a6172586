"""What the tracker needs of PostgreSQL, and sentences that say what to set when it is not there."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import asyncpg
import psycopg

from services.revision.tracker.stream import PUBLICATION

_CHECK: Final = """
SELECT current_setting('wal_level') AS wal_level, current_user AS role, pg_is_in_recovery() AS in_recovery,
       (SELECT rolreplication OR rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) AS may_replicate,
       EXISTS (SELECT FROM pg_catalog.pg_tables WHERE schemaname = 'conversation' AND tablename = 'epoch') AS migrated
"""

_PUBLISHED: Final = (
    "public.task_session_messages",
    "public.task_session_turns",
    "public.conversation_session_revisions",
    "conversation.epoch",
)

_IDENTITIES: Final = {
    "public.task_session_messages": ("id", "task_session_id", "task_id", "author_type"),
    "public.task_session_turns": ("id", "task_session_id", "task_id"),
}
"""The columns that have to be in a replica identity: which row it is, and which scopes held it. Where the task may be
NULL, or might be when the database was attached, it cannot be, and a trigger watches it instead.
"""

_TASK: Final = "task_id"
_TASK_TRIGGER: Final = "conversation_task_changed"

_TRIGGERS: Final = (
    *(
        (table, f"conversation_rows_{what}")
        for table in _IDENTITIES
        for what in ("inserted", "updated", "deleted", "truncated")
    ),
    ("public.task_sessions", "conversation_sessions_created"),
    ("public.conversation_session_revisions", "conversation_revision_refused"),
    ("public.conversation_session_revisions", "conversation_revision_row_leaving"),
    ("public.conversation_session_revisions", "conversation_revision_rows_deleted"),
    ("public.conversation_session_revisions", "conversation_revision_rows_truncated"),
)

_BREACHES: Final = """
SELECT (SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate FROM pg_catalog.pg_publication
         WHERE pubname = $1) AS publishes_all,
       ARRAY(SELECT wanted FROM unnest($2::text[]) AS wanted
              WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_publication_tables
                                 WHERE pubname = $1 AND schemaname || '.' || tablename = wanted)) AS unpublished,
       EXISTS (SELECT FROM pg_catalog.pg_publication_rel r JOIN pg_catalog.pg_publication p ON p.oid = r.prpubid
                WHERE p.pubname = $1 AND (to_jsonb(r) ->> 'prqual' IS NOT NULL OR to_jsonb(r) ->> 'prattrs' IS NOT NULL)
       ) AS filtered,
       ARRAY(SELECT t.name || ' ' || t.trigger FROM unnest($3::text[], $4::text[]) AS t (name, trigger)
              WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_trigger g
                                 WHERE g.tgrelid = to_regclass(t.name) AND g.tgname = t.trigger
                                   AND g.tgenabled IN ('O', 'A'))) AS silent
"""
"""Row filters and column lists are asked for through JSON: PostgreSQL 14 has no such columns."""

_IDENTITY: Final = """
SELECT c.relreplident::text AS kind,
       ARRAY(SELECT a.attname::text FROM pg_catalog.pg_index i
               JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
              WHERE i.indrelid = c.oid AND CASE c.relreplident WHEN 'i' THEN i.indisreplident
                                                               WHEN 'd' THEN i.indisprimary ELSE false END) AS columns,
       EXISTS (SELECT FROM pg_catalog.pg_attribute a
                WHERE a.attrelid = c.oid AND a.attname = $2 AND NOT a.attnotnull) AS task_nullable,
       EXISTS (SELECT FROM pg_catalog.pg_trigger g
                WHERE g.tgrelid = c.oid AND g.tgname = $3 AND g.tgenabled IN ('O', 'A')) AS task_watched
  FROM pg_catalog.pg_class c WHERE c.oid = to_regclass($1)
"""

_BLOCKERS: Final = """
SELECT blocker.pid, activity.application_name, activity.datname,
       extract(epoch FROM clock_timestamp() - activity.xact_start)::float8 AS age
FROM unnest(pg_blocking_pids($1)) AS blocker (pid) LEFT JOIN pg_catalog.pg_stat_activity AS activity USING (pid)
"""

_BY_STATE: Final = {
    "53400": "every replication slot is in use: raise max_replication_slots to the number of trackers + 2, and restart",
    "53300": "every connection or WAL sender is in use: raise max_wal_senders or max_connections (they need a restart)",
    "42501": "the role lacks a right: ALTER ROLE … REPLICATION, and SELECT on what the publication publishes",
    "28000": "pg_hba.conf has no line for this role, database and address: add one for that database",
    "28P01": "the password is wrong: check the user and password of the database address",
    "55000": "the server is not ready for logical decoding: set wal_level=logical and connect to a primary",
}

_BY_TEXT: Final = {
    "max_wal_senders": "53300",
    "pg_hba.conf": "28000",
    "permission denied to start WAL sender": "42501",
    "password authentication failed": "28P01",
}


_Want = tuple[bool, str]
"""Whether something is wanting, and what to set then."""


async def missing(connection: asyncpg.Connection) -> str | None:
    """What has to be set before a stream can work here, or `None`."""
    row = await connection.fetchrow(_CHECK)
    wants = (
        *_wants_of_server(row),
        (not row["may_replicate"], f'the role lacks the REPLICATION right: ALTER ROLE "{row["role"]}" REPLICATION'),
        (not row["migrated"], "the schema is not installed in this database: run the migrations"),
    )
    return _first_wanting(wants)


async def missing_of_server(connection: asyncpg.Connection) -> str | None:
    """What has to be set of the server before anybody's stream can work there, or `None`: whatever the role may do, and
    whether or not the schema is installed.
    """
    return _first_wanting(_wants_of_server(await connection.fetchrow(_CHECK)))


def _wants_of_server(row: asyncpg.Record) -> tuple[_Want, ...]:
    wal_level = row["wal_level"]
    return (
        (row["in_recovery"], "the address names a standby: connect to the primary (target_session_attrs=read-write)"),
        (wal_level != "logical", f"wal_level is {wal_level}: set wal_level=logical and restart PostgreSQL"),
    )


def _first_wanting(wants: Iterable[_Want]) -> str | None:
    return next((sentence for wanting, sentence in wants if wanting), None)


async def breach(connection: asyncpg.Connection) -> str | None:
    """What keeps changes from reaching the revisions or the log whole, and what to set; `None`: nothing does.

    Each can be changed under a running tracker without an error anywhere: what it does to single transactions the log
    shows only in part.
    """
    tables, triggers = zip(*_TRIGGERS, strict=True)
    row = await connection.fetchrow(_BREACHES, PUBLICATION, _PUBLISHED, tables, triggers)
    every = ", ".join(_PUBLISHED)
    if row["publishes_all"] is None:
        return f"the publication {PUBLICATION} is missing: CREATE PUBLICATION {PUBLICATION} FOR TABLE {every}"
    if row["unpublished"]:
        lacking = ", ".join(row["unpublished"])
        return f"the publication {PUBLICATION} lacks {lacking}: ALTER PUBLICATION {PUBLICATION} ADD TABLE {lacking}"
    if not row["publishes_all"]:
        return (
            f"the publication {PUBLICATION} leaves out changes: "
            f"ALTER PUBLICATION {PUBLICATION} SET (publish = 'insert, update, delete, truncate')"
        )
    if row["filtered"]:
        return (
            f"the publication {PUBLICATION} leaves out rows or columns: "
            f"ALTER PUBLICATION {PUBLICATION} SET TABLE {every}"
        )
    if row["silent"]:
        table, trigger = row["silent"][0].split(" ")
        return (
            f"the trigger {trigger} of {table} is missing or disabled: ALTER TABLE {table} ENABLE TRIGGER {trigger}, "
            "or create it again as the migrations do"
        )
    return await _identity_breach(connection)


async def _identity_breach(connection: asyncpg.Connection) -> str | None:
    for table, wanted in _IDENTITIES.items():
        row = await _identity(connection, table)
        if row["kind"] == "f" or (lacking := set(wanted) - set(row["columns"])) == set():
            continue
        if lacking == {_TASK} and (row["task_nullable"] or row["task_watched"]):
            if not row["task_watched"]:
                return (
                    f"the trigger {_TASK_TRIGGER} of {table} is missing or disabled: "
                    f"ALTER TABLE {table} ENABLE TRIGGER {_TASK_TRIGGER}, or create it again as the migrations do"
                )
        else:
            index = f"{table.partition('.')[2]}_identity"
            return (
                f"the replica identity of {table} is not its index {index}: "
                f"ALTER TABLE {table} REPLICA IDENTITY USING INDEX {index}"
            )
    revisions, epoch = "public.conversation_session_revisions", "conversation.epoch"
    if (await _identity(connection, revisions))["kind"] != "f":
        return f"the replica identity of {revisions} is not FULL: ALTER TABLE {revisions} REPLICA IDENTITY FULL"
    if (await _identity(connection, epoch))["kind"] == "n":
        return f"the replica identity of {epoch} is NOTHING: ALTER TABLE {epoch} REPLICA IDENTITY DEFAULT"
    return None


async def _identity(connection: asyncpg.Connection, table: str) -> asyncpg.Record:
    return await connection.fetchrow(_IDENTITY, table, _TASK, _TASK_TRIGGER)


@dataclass(frozen=True, slots=True)
class Blocked:
    """Which transactions a backend waits for. `by`: their processes; `text`: process, application, database, age."""

    by: tuple[int, ...]
    text: str


async def blockers(connection: asyncpg.Connection, backend_pid: int) -> Blocked:
    """The transactions that a backend waits for. Never a query's text."""
    rows = await connection.fetch(_BLOCKERS, backend_pid)
    text = "waits for " + "; ".join(_blocker(row) for row in rows)
    return Blocked(
        tuple(sorted(row["pid"] for row in rows)), text if rows else "the server gives no transaction that blocks it"
    )


def explain(error: Exception) -> str:
    """A sentence for an error of either driver: what to set where that is known, else class and state."""
    state = getattr(error, "sqlstate", None)
    text = str(error)
    for part, known in _BY_TEXT.items():
        if part in text:
            state = known
    if state in _BY_STATE:
        return _BY_STATE[state]
    if isinstance(error, asyncpg.PostgresError | psycopg.Error) and state is not None:
        return f"PostgreSQL refused: {type(error).__name__} ({state})"
    return f"PostgreSQL does not answer: {type(error).__name__}"


def _blocker(row: asyncpg.Record) -> str:
    if not row["pid"]:
        return "a prepared transaction (see pg_prepared_xacts: COMMIT PREPARED or ROLLBACK PREPARED it)"
    age = "unknown" if row["age"] is None else f"{row['age']:.0f} s"
    application = row["application_name"] or "unnamed"
    return f"process {row['pid']} (application {application!r}, database {row['datname']}), open for {age}"
