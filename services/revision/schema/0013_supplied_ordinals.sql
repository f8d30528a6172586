-- A writer may keep the counter itself: it moves the counter on and inserts the message with that ordinal, in one
-- transaction. The trigger then finds the ordinal taken, by the very transaction that brings it.

-- Whether this transaction has moved the session's counter to this ordinal, and no message has it yet.
CREATE OR REPLACE FUNCTION conversation.prompt_seq_taken(session text, ordinal integer) RETURNS boolean
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM public.task_session_prompt_seq
                    WHERE task_session_id = session AND last_seq = ordinal
                      AND xmin = pg_current_xact_id()::xid)
       AND NOT EXISTS (SELECT FROM public.task_session_messages
                        WHERE task_session_id = session AND prompt_seq = ordinal AND prompt_seq > 0)
$$;
REVOKE ALL ON FUNCTION conversation.prompt_seq_taken(text, integer) FROM PUBLIC;

CREATE OR REPLACE FUNCTION conversation.message_arriving() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    due    integer;
    newest timestamptz;
BEGIN
    IF NEW.author_type IS DISTINCT FROM 'user' THEN
        NEW.prompt_seq := 0;
        NEW.created_at := coalesce(NEW.created_at, clock_timestamp());
        NEW.updated_at := coalesce(NEW.updated_at, NEW.created_at);
        RETURN NEW;
    END IF;
    PERFORM 1 FROM public.task_sessions WHERE id = NEW.task_session_id FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE foreign_key_violation USING MESSAGE = format('session %s does not exist', NEW.task_session_id);
    END IF;
    -- An id that is taken ends as a conflict, so it takes no ordinal. The lock keeps that row from going away first.
    PERFORM 1 FROM public.task_session_messages WHERE id = NEW.id FOR KEY SHARE;
    IF FOUND THEN
        NEW.created_at := coalesce(NEW.created_at, clock_timestamp());
        NEW.updated_at := coalesce(NEW.updated_at, NEW.created_at);
        RETURN NEW;
    END IF;
    IF NEW.prompt_seq > 0 AND conversation.prompt_seq_taken(NEW.task_session_id, NEW.prompt_seq) THEN
        due := NEW.prompt_seq;
    ELSE
        due := conversation.take_prompt_seq(NEW.task_session_id);
    END IF;
    IF coalesce(NEW.prompt_seq, 0) NOT IN (0, due) THEN
        RAISE EXCEPTION 'message % brings ordinal %, but % is due in session %', NEW.id, NEW.prompt_seq, due, NEW.task_session_id
            USING ERRCODE = 'KC002', HINT = 'Leave prompt_seq out: it is assigned on insert.';
    END IF;
    NEW.prompt_seq := due;
    SELECT max(created_at) INTO newest
      FROM public.task_session_messages WHERE task_session_id = NEW.task_session_id AND author_type = 'user';
    IF NEW.created_at IS NULL THEN
        NEW.created_at := greatest(clock_timestamp(), newest + interval '1 microsecond');
    ELSIF NEW.created_at <= newest THEN
        RAISE EXCEPTION 'message % is dated %, not strictly after %, the newest user message of session %',
            NEW.id, NEW.created_at, newest, NEW.task_session_id
            USING ERRCODE = 'KC001', HINT = 'Leave created_at out for a live message, or give a later time.';
    END IF;
    NEW.updated_at := coalesce(NEW.updated_at, NEW.created_at);
    RETURN NEW;
END $$;
