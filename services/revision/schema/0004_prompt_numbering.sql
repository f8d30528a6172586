-- Numbers the prompts that were there before their ordinals were, session by session in the order (created_at, id).
--
-- Commits after every batch of sessions, so that writers wait for one batch at most. A session advances by one revision
-- for its whole numbering, and not at all when nothing in it was unnumbered: running it again changes nothing.
CREATE OR REPLACE PROCEDURE conversation.number_prompts(sessions_per_commit integer DEFAULT 100)
LANGUAGE plpgsql AS $$
DECLARE
    batch   text[];
    session text;
    after   text := '';
BEGIN
    LOOP
        SELECT array_agg(s.id ORDER BY s.id) INTO batch
          FROM (SELECT DISTINCT task_session_id AS id FROM public.task_session_messages
                 WHERE author_type = 'user' AND prompt_seq = 0 AND task_session_id > after
                 ORDER BY 1 LIMIT sessions_per_commit) s;
        EXIT WHEN batch IS NULL;
        FOREACH session IN ARRAY batch LOOP
            PERFORM 1 FROM public.task_sessions WHERE id = session FOR KEY SHARE;
            CONTINUE WHEN NOT FOUND;
            PERFORM 1 FROM public.task_session_messages
              WHERE task_session_id = session AND author_type = 'user' AND prompt_seq = 0 ORDER BY id FOR NO KEY UPDATE;
            -- Seeds the counter, or locks the one that is there: from here no prompt can arrive in between.
            INSERT INTO public.task_session_prompt_seq AS c (task_session_id, last_seq)
            SELECT session, greatest(count(*), max(prompt_seq))
              FROM public.task_session_messages WHERE task_session_id = session AND author_type = 'user'
            ON CONFLICT (task_session_id) DO UPDATE SET last_seq = greatest(c.last_seq, excluded.last_seq);
            UPDATE public.task_session_messages m SET prompt_seq = r.place
              FROM (SELECT id, row_number() OVER (ORDER BY created_at, id COLLATE "C") AS place
                      FROM public.task_session_messages
                     WHERE task_session_id = session AND author_type = 'user') r
             WHERE m.id = r.id AND m.prompt_seq = 0;
        END LOOP;
        after := batch[cardinality(batch)];
        COMMIT;
    END LOOP;
END $$;
REVOKE ALL ON PROCEDURE conversation.number_prompts(integer) FROM PUBLIC;
