-- run: outside a transaction
-- The order of Host RPC's reads across conversations (services/reader/host_messages.py): of everything, and of one type.
-- An expression keeps these indexes from the statements that page through one session: those order by created_at itself,
-- so that no planner can take an index of all conversations for their order. UTC leaves the order as it is.

ALTER TABLE public.task_session_messages ADD COLUMN IF NOT EXISTS type text NOT NULL DEFAULT 'message';

CREATE INDEX CONCURRENTLY IF NOT EXISTS task_session_messages_host_keyset
    ON public.task_session_messages ((created_at AT TIME ZONE 'UTC'), id COLLATE "C");

CREATE INDEX CONCURRENTLY IF NOT EXISTS task_session_messages_host_type_keyset
    ON public.task_session_messages (type, (created_at AT TIME ZONE 'UTC'), id COLLATE "C");
