"""What the tracker needs of PostgreSQL, and sentences that say what to set when it is not there."""

from typing import Final

import asyncpg
import psycopg

from services.revision.tracker.stream import PUBLICATION

_CHECK: Final = """
SELECT current_setting('wal_level') AS wal_level, current_user AS role, pg_is_in_recovery() AS in_recovery,
       (SELECT rolreplication OR rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) AS may_replicate,
       EXISTS (SELECT FROM pg_catalog.pg_tables WHERE schemaname = 'conversation' AND tablename = 'epoch') AS migrated,
       (SELECT count(*) FROM pg_catalog.pg_publication_tables WHERE pubname = $1
           AND (schemaname, tablename) IN (('public', 'task_session_messages'), ('public', 'task_session_turns'),
               ('public', 'conversation_session_revisions'), ('conversation', 'epoch'))) = 4 AS published
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


async def missing(connection: asyncpg.Connection) -> str | None:
    """What has to be set before a stream can work here, or `None`."""
    row = await connection.fetchrow(_CHECK, PUBLICATION)
    wal_level, role = row["wal_level"], row["role"]
    wants = (
        (row["in_recovery"], "the address names a standby: connect to the primary (target_session_attrs=read-write)"),
        (wal_level != "logical", f"wal_level is {wal_level}: set wal_level=logical and restart PostgreSQL"),
        (not row["may_replicate"], f'the role lacks the REPLICATION right: ALTER ROLE "{role}" REPLICATION'),
        (not row["migrated"], "the schema is not installed in this database: run the migrations"),
        (not row["published"], f"the publication {PUBLICATION} is missing or lacks a table: run the migrations"),
    )
    return next((sentence for wanting, sentence in wants if wanting), None)


async def blockers(connection: asyncpg.Connection, backend_pid: int) -> str:
    """Which transactions a backend waits for: process, application, database, age. Never a query's text."""
    rows = await connection.fetch(_BLOCKERS, backend_pid)
    if not rows:
        return "the server gives no transaction that blocks it"
    return "waits for " + "; ".join(_blocker(row) for row in rows)


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
