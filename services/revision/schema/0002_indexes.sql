-- run: outside a transaction
-- The order of reads (keysets), the columns that receipts need of a previous row (identity), and what deletes look up.

-- Keysets order ids by their bytes, whatever collation the database has: clients compare them so.
CREATE INDEX CONCURRENTLY IF NOT EXISTS task_session_messages_keyset
    ON public.task_session_messages (task_session_id, created_at, id COLLATE "C");

CREATE INDEX CONCURRENTLY IF NOT EXISTS task_session_messages_prompt_keyset
    ON public.task_session_messages (task_session_id, created_at, id COLLATE "C") WHERE author_type = 'user';

CREATE INDEX CONCURRENTLY IF NOT EXISTS task_session_messages_task_keyset
    ON public.task_session_messages (task_id, created_at, id COLLATE "C");

CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS task_session_messages_prompt_seq
    ON public.task_session_messages (task_session_id, prompt_seq) WHERE prompt_seq > 0;

CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS task_session_messages_identity
    ON public.task_session_messages (id, task_session_id, task_id, author_type, created_at);

CREATE INDEX CONCURRENTLY IF NOT EXISTS task_session_turns_keyset
    ON public.task_session_turns (task_session_id, started_at, id COLLATE "C");

CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS task_session_turns_identity
    ON public.task_session_turns (id, task_session_id, task_id, started_at);

CREATE INDEX CONCURRENTLY IF NOT EXISTS task_sessions_task ON public.task_sessions (task_id);

CREATE INDEX CONCURRENTLY IF NOT EXISTS tasks_workspace ON public.tasks (workspace_id);

CREATE INDEX CONCURRENTLY IF NOT EXISTS workspace_members_user ON public.workspace_members (user_id);
