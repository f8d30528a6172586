-- The conversation tables, as a plain SQL writer sees them, and what this service keeps about their history.
-- Tables that are already there are left as they are.

CREATE SCHEMA IF NOT EXISTS conversation;

CREATE TABLE IF NOT EXISTS public.workspaces (
    id         text PRIMARY KEY CHECK (char_length(id) <= 255),
    name       text NOT NULL DEFAULT '',
    owner_id   text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
ALTER TABLE public.workspaces ADD COLUMN IF NOT EXISTS owner_id text NOT NULL DEFAULT '';

CREATE TABLE IF NOT EXISTS public.workspace_members (
    workspace_id text NOT NULL REFERENCES public.workspaces (id) ON DELETE CASCADE,
    user_id      text NOT NULL,
    role         text NOT NULL DEFAULT 'member',
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (workspace_id, user_id)
);

CREATE TABLE IF NOT EXISTS public.tasks (
    id           text PRIMARY KEY CHECK (char_length(id) <= 255),
    workspace_id text NOT NULL REFERENCES public.workspaces (id) ON DELETE CASCADE,
    title        text NOT NULL DEFAULT '',
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE IF NOT EXISTS public.task_sessions (
    id             text PRIMARY KEY CHECK (char_length(id) <= 255),
    task_id        text NOT NULL REFERENCES public.tasks (id) ON DELETE CASCADE,
    state          text NOT NULL DEFAULT 'CREATED',
    is_passthrough boolean NOT NULL DEFAULT false,
    metadata       text NOT NULL DEFAULT '{}',
    started_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    completed_at   timestamptz,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE IF NOT EXISTS public.task_session_turns (
    id                   text PRIMARY KEY CHECK (char_length(id) <= 255),
    task_session_id      text NOT NULL REFERENCES public.task_sessions (id) ON DELETE CASCADE,
    task_id              text NOT NULL,
    started_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    completed_at         timestamptz,
    execution_profile_id text,
    route_generation     bigint,
    metadata             text NOT NULL DEFAULT '{}',
    created_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at           timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- turn_id carries no foreign key: deleting a turn must not rewrite its messages.
-- created_at has no default: an absent one means "now", which the admission trigger settles.
CREATE TABLE IF NOT EXISTS public.task_session_messages (
    id              text PRIMARY KEY CHECK (char_length(id) <= 255),
    task_session_id text NOT NULL REFERENCES public.task_sessions (id) ON DELETE CASCADE,
    task_id         text NOT NULL,
    turn_id         text,
    author_type     text NOT NULL CHECK (author_type IN ('user', 'agent')),
    author_id       text NOT NULL DEFAULT '',
    content         text NOT NULL DEFAULT '',
    requests_input  boolean NOT NULL DEFAULT false,
    type            text NOT NULL DEFAULT 'message',
    metadata        text NOT NULL DEFAULT '{}',
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    prompt_seq      integer NOT NULL DEFAULT 0
);
ALTER TABLE public.task_session_messages ADD COLUMN IF NOT EXISTS prompt_seq integer NOT NULL DEFAULT 0;

CREATE TABLE IF NOT EXISTS public.task_session_prompt_seq (
    task_session_id text PRIMARY KEY REFERENCES public.task_sessions (id) ON DELETE CASCADE,
    last_seq        integer NOT NULL
) WITH (fillfactor = 50);

-- Its foreign key comes with the capture migration: it has to be the last one on task_sessions.
CREATE TABLE IF NOT EXISTS public.conversation_session_revisions (
    session_id text PRIMARY KEY,
    revision   bigint NOT NULL CHECK (revision >= 0)
);
-- Every commit updates one narrow row: room on the page keeps the updates HOT, and vacuum follows by count, not by share.
ALTER TABLE public.conversation_session_revisions
    SET (fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- Names the uninterrupted history that revisions belong to. The identity columns belong to the tracker (R3).
CREATE TABLE IF NOT EXISTS conversation.epoch (
    id                boolean PRIMARY KEY DEFAULT true CHECK (id),
    epoch             text NOT NULL,
    minted_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    reason            text NOT NULL,
    heartbeat_at      timestamptz,
    system_identifier text,
    timeline          integer,
    database_oid      bigint,
    revisions_oid     bigint
) WITH (fillfactor = 30);
INSERT INTO conversation.epoch (epoch, reason)
VALUES (gen_random_uuid()::text, 'installation') ON CONFLICT DO NOTHING;

CREATE TABLE IF NOT EXISTS conversation.settings (
    id         boolean PRIMARY KEY DEFAULT true CHECK (id),
    partitions integer NOT NULL DEFAULT 8 CHECK (partitions > 0)
);
INSERT INTO conversation.settings DEFAULT VALUES ON CONFLICT DO NOTHING;

-- R1: the revision at which a new session starts; above every revision that a deleted session ever had.
-- A sequence, because its value is outside transactions: it is current in every isolation level, a deletion that is
-- rolled back leaves it harmlessly high, and nobody waits for anybody's commit. Raised only by raise_revision_floor.
CREATE SEQUENCE IF NOT EXISTS conversation.revision_floor AS bigint MINVALUE 1 START 1 CACHE 1;

CREATE SEQUENCE IF NOT EXISTS conversation.tracker_term AS bigint MINVALUE 1 START 1 CACHE 1;
