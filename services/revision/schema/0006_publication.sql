-- What the tracker decodes. The previous selection and order columns of a row are logged only when they change;
-- a revision row is narrow enough to be logged whole, which gives every receipt its base.

ALTER TABLE public.task_session_messages REPLICA IDENTITY USING INDEX task_session_messages_identity;
ALTER TABLE public.task_session_turns REPLICA IDENTITY USING INDEX task_session_turns_identity;
ALTER TABLE public.conversation_session_revisions REPLICA IDENTITY FULL;

DO $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_publication WHERE pubname = 'conversation_receipts') THEN
        CREATE PUBLICATION conversation_receipts
            FOR TABLE public.task_session_messages, public.task_session_turns,
                      public.conversation_session_revisions, conversation.epoch
            WITH (publish = 'insert, update, delete, truncate');
    END IF;
END $$;
