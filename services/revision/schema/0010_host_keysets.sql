-- run: outside a transaction
-- The order of Host RPC's reads across conversations (services/reader/host_messages.py): of one type, and of everything.
-- Each walk has one index that is in its order, so that no statistics can lead a planner to another one and past
-- millions of rows. That of everything is on an expression: by created_at itself it would be in the order of every other
-- walk, too. UTC leaves the order as it is.

ALTER TABLE public.task_session_messages ADD COLUMN IF NOT EXISTS type text NOT NULL DEFAULT 'message';

CREATE INDEX CONCURRENTLY IF NOT EXISTS task_session_messages_type_keyset
    ON public.task_session_messages (type, created_at, id COLLATE "C");

CREATE INDEX CONCURRENTLY IF NOT EXISTS task_session_messages_host_keyset
    ON public.task_session_messages ((created_at AT TIME ZONE 'UTC'), id COLLATE "C");
