-- Where task_id may be NULL, no replica identity can hold it, and the log does not tell which task a row was of. An
-- update that changes it is made visible by the revision: a step of more than one says that something happened which
-- the log does not name, and the session is read again.

CREATE OR REPLACE FUNCTION conversation.task_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- First by one, which gives a row to a session that has none: a first step may be of any size.
    PERFORM conversation.advance_revisions(ARRAY[NEW.task_session_id]);
    UPDATE public.conversation_session_revisions SET revision = revision + 2 WHERE session_id = NEW.task_session_id;
    RETURN NULL;
END $$;

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'public.task_session_messages'::regclass
                                              AND attname = 'task_id' AND attnotnull) THEN
        CREATE OR REPLACE TRIGGER conversation_task_changed AFTER UPDATE ON public.task_session_messages
            FOR EACH ROW WHEN (OLD.task_id IS DISTINCT FROM NEW.task_id) EXECUTE FUNCTION conversation.task_changed();
    END IF;
    IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'public.task_session_turns'::regclass
                                              AND attname = 'task_id' AND attnotnull) THEN
        CREATE OR REPLACE TRIGGER conversation_task_changed AFTER UPDATE ON public.task_session_turns
            FOR EACH ROW WHEN (OLD.task_id IS DISTINCT FROM NEW.task_id) EXECUTE FUNCTION conversation.task_changed();
    END IF;
END $$;
