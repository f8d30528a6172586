"""What cannot be attached is refused before anything is written, by a sentence that says what to change."""

import secrets
from collections.abc import AsyncIterator
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
import pytest_asyncio

from services.revision.schema.attaching import Unsuitable
from services.revision.schema.detach import detach
from services.revision.schema.migrate import migrate
from services.revision.schema.preview import preview
from services.revision.tracker.prerequisites import breach
from tests.support.kandev import TABLES, rows_of, schema_of

FORCED = (
    "ALTER TABLE task_session_messages ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY; "
    "CREATE POLICY mine ON task_session_messages USING (author_type = 'agent')"
)


@pytest_asyncio.fixture
async def owner(kandev: asyncpg.Connection, empty_database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A role without privileges of its own but those that attaching needs."""
    name = f"owner_{secrets.token_hex(4)}"
    database = urlsplit(empty_database_url).path[1:]
    await kandev.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'x'")
    await kandev.execute(f"GRANT CREATE ON DATABASE {database} TO {name}; GRANT CREATE ON SCHEMA public TO {name}")
    for table in (*TABLES, "conversation_session_revisions"):
        await kandev.execute(f"ALTER TABLE {table} OWNER TO {name}")
    parts = urlsplit(empty_database_url)
    connection = await asyncpg.connect(urlunsplit(parts._replace(netloc=f"{name}:x@{parts.netloc.rpartition('@')[2]}")))
    yield connection
    await connection.close()
    await kandev.execute(f"REASSIGN OWNED BY {name} TO CURRENT_USER; DROP OWNED BY {name} CASCADE; DROP ROLE {name}")


async def refused_untouched(connection: asyncpg.Connection, superuser: asyncpg.Connection, url: str, why: str) -> None:
    schema, rows = await schema_of(url), await rows_of(superuser)
    for attempt in (preview, migrate):
        with pytest.raises(Unsuitable, match=why):
            await attempt(connection)
    assert await schema_of(url) == schema
    assert await rows_of(superuser) == rows


@pytest.mark.parametrize(
    ("different", "why"),
    [
        (
            "DROP TABLE tasks CASCADE; CREATE VIEW tasks AS SELECT ''::text AS id, ''::text AS workspace_id",
            "public.tasks is no plain table",
        ),
        (
            "ALTER TABLE task_session_turns RENAME TO plain; CREATE TABLE task_session_turns "
            "(LIKE plain INCLUDING DEFAULTS, PRIMARY KEY (id)) PARTITION BY HASH (id)",
            "public.task_session_turns is no plain table",
        ),
        ("CREATE SCHEMA conversation", "a schema conversation is there that is not ours"),
        ("CREATE SCHEMA gateway; CREATE TABLE gateway.users (id text)", "a schema gateway is there that is not ours"),
        (
            "ALTER TABLE conversation_session_revisions DROP CONSTRAINT conversation_session_revisions_pkey",
            "session_id of conversation_session_revisions is not unique",
        ),
        (
            "ALTER TABLE task_session_prompt_seq DROP CONSTRAINT task_session_prompt_seq_pkey, "
            "ADD PRIMARY KEY (task_session_id) DEFERRABLE",
            "task_session_id of task_session_prompt_seq is not unique",
        ),
        (
            "TRUNCATE task_session_prompt_seq; ALTER TABLE task_session_prompt_seq ADD COLUMN held_by text NOT NULL",
            "held_by of task_session_prompt_seq must be given",
        ),
        (
            "ALTER TABLE task_session_messages ALTER created_at TYPE text",
            "created_at of task_session_messages is of the type text, not timestamp",
        ),
        (
            "ALTER TABLE task_session_messages ALTER created_at DROP NOT NULL",
            "created_at of task_session_messages may be NULL, and gives rows their place",
        ),
        (
            "ALTER TABLE task_session_turns ALTER started_at DROP NOT NULL",
            "started_at of task_session_turns may be NULL",
        ),
        (
            "ALTER TABLE task_session_messages ALTER metadata DROP DEFAULT, "
            "ALTER metadata TYPE jsonb USING NULLIF(metadata, '')::jsonb",
            "metadata of task_session_messages is of the type jsonb, not text",
        ),
        (
            "ALTER TABLE task_session_messages ALTER requests_input DROP DEFAULT, ALTER requests_input TYPE text",
            "requests_input of task_session_messages is of the type text, not boolean or integer",
        ),
        (
            "ALTER TABLE task_session_turns ALTER route_generation TYPE numeric",
            "route_generation of task_session_turns is of the type numeric",
        ),
        (
            "ALTER TABLE conversation_session_revisions DROP CONSTRAINT "
            "conversation_session_revisions_session_id_fkey; "
            "INSERT INTO conversation_session_revisions VALUES ('gone', 3)",
            "1 of conversation_session_revisions belong to no session",
        ),
        (
            "UPDATE task_session_messages SET prompt_seq = 1 WHERE author_type = 'user' AND task_session_id < 's3'",
            "the same ordinal, in 3 sessions",
        ),
        # One that has none would get its place, which a later one has.
        (
            "UPDATE task_session_messages SET prompt_seq = prompt_seq - 1 WHERE author_type = 'user' "
            "AND task_session_id = 's1'",
            "the same ordinal, in 1 sessions",
        ),
        (
            "CREATE PUBLICATION mine FOR TABLE task_session_messages (id, content, created_at)",
            "the publication mine lists columns of task_session_messages without author_type, task_session_id",
        ),
        (
            "ALTER TABLE task_session_turns REPLICA IDENTITY FULL; "
            "CREATE PUBLICATION mine FOR TABLE task_session_turns WHERE (route_generation > 1)",
            "the publication mine chooses rows of task_session_turns by route_generation",
        ),
    ],
)
async def test_what_cannot_be_attached_is_left_untouched(
    kandev: asyncpg.Connection, empty_database_url: str, different: str, why: str
) -> None:
    await kandev.execute(different)
    await refused_untouched(kandev, kandev, empty_database_url, why)


@pytest.mark.parametrize(
    "different",
    [
        "ALTER TABLE task_session_messages ALTER id TYPE varchar(64), ALTER created_at TYPE timestamp(6)",
        "ALTER TABLE conversation_session_revisions ADD COLUMN seen timestamptz NOT NULL DEFAULT now()",
        "CREATE PUBLICATION mine FOR ALL TABLES",
        "CREATE PUBLICATION mine FOR TABLE task_session_messages (id, content) WITH (publish = 'insert')",
        "CREATE PUBLICATION mine FOR TABLE task_session_messages WHERE (id <> 'm1'), task_session_turns",
        "UPDATE task_session_messages SET prompt_seq = 0 WHERE id >= 'm50'",
        "ALTER TABLE task_sessions ALTER is_passthrough DROP DEFAULT, "
        "ALTER is_passthrough TYPE integer USING is_passthrough::integer",
        "ALTER TABLE tasks ALTER metadata DROP DEFAULT, ALTER metadata TYPE jsonb USING metadata::jsonb",
    ],
)
async def test_what_only_looks_odd_is_attached(
    kandev: asyncpg.Connection, empty_database_url: str, different: str
) -> None:
    await kandev.execute(different)
    schema = await schema_of(empty_database_url)
    await migrate(kandev)
    assert await breach(kandev) is None
    await kandev.execute("UPDATE task_session_messages SET content = content || '!'")
    await detach(kandev)
    assert await schema_of(empty_database_url) == schema


@pytest.mark.parametrize(
    ("lacking", "why"),
    [
        ("REVOKE CREATE ON DATABASE {database} FROM {role}", "may not create schemas in"),
        ("REVOKE CREATE ON SCHEMA public FROM {role}", "may not create tables in the schema public"),
        ("ALTER TABLE tasks OWNER TO CURRENT_USER; GRANT ALL ON tasks TO {role}", "does not own tasks"),
        (FORCED, "row security is forced upon the owner of task_session_messages"),
    ],
)
async def test_a_role_that_lacks_a_right_is_told_which(
    kandev: asyncpg.Connection, owner: asyncpg.Connection, empty_database_url: str, lacking: str, why: str
) -> None:
    role = await owner.fetchval("SELECT current_user")
    await kandev.execute(lacking.format(role=role, database=urlsplit(empty_database_url).path[1:]))
    await refused_untouched(owner, kandev, empty_database_url, why)


async def test_a_server_that_lets_nobody_write_is_told(kandev: asyncpg.Connection, empty_database_url: str) -> None:
    await kandev.execute("SET default_transaction_read_only = on")
    await refused_untouched(kandev, kandev, empty_database_url, "the server lets nobody write here")


async def test_a_database_in_another_encoding_is_refused(kandev: asyncpg.Connection, empty_database_url: str) -> None:
    name = f"ascii_{secrets.token_hex(4)}"
    await kandev.execute(
        f"CREATE DATABASE {name} TEMPLATE template0 ENCODING SQL_ASCII LOCALE_PROVIDER libc LOCALE 'C'"
    )
    parts = urlsplit(empty_database_url)
    connection = await asyncpg.connect(urlunsplit(parts._replace(path=f"/{name}")))
    try:
        with pytest.raises(Unsuitable, match=f"the encoding of {name} is SQL_ASCII, not UTF8"):
            await migrate(connection)
        assert await connection.fetchval("SELECT to_regnamespace('conversation') IS NULL")
    finally:
        await connection.close()
        await kandev.execute(f"DROP DATABASE {name}")


async def test_the_owner_of_the_tables_attaches_and_leaves(owner: asyncpg.Connection, empty_database_url: str) -> None:
    schema = await schema_of(empty_database_url)
    await migrate(owner)
    assert await breach(owner) is None
    await detach(owner)
    assert await schema_of(empty_database_url) == schema


async def test_what_a_role_sets_for_its_sessions_does_not_matter(
    kandev: asyncpg.Connection, empty_database_url: str
) -> None:
    """Time-outs that are right for an application, and a search path that finds other things."""
    schema = await schema_of(empty_database_url)
    await kandev.execute("SET statement_timeout = 1; SET lock_timeout = 1; SET search_path = pg_catalog")
    await migrate(kandev)
    await kandev.execute("SET statement_timeout = 1; SET lock_timeout = 1; SET search_path = pg_catalog")
    await detach(kandev)
    assert await schema_of(empty_database_url) == schema
