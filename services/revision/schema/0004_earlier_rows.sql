-- What gives rows from before the triggers the place that later ones get by themselves.

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

-- Gives the sessions that were there before revisions their row, at 0, as they read without it. A session deleted without
-- ever having had one would leave rows in the log that no revision change covers (T4).
--
-- Commits after every batch. Running it again changes nothing.
CREATE OR REPLACE PROCEDURE conversation.give_revision_rows(sessions_per_commit integer DEFAULT 1000)
LANGUAGE plpgsql AS $$
DECLARE
    batch text[];
BEGIN
    LOOP
        SELECT array_agg(s.id ORDER BY s.id) INTO batch
          FROM (SELECT id FROM public.task_sessions
                 WHERE NOT EXISTS (SELECT FROM public.conversation_session_revisions r WHERE r.session_id = id)
                   AND id > coalesce(batch[cardinality(batch)], '')
                 ORDER BY id LIMIT sessions_per_commit FOR KEY SHARE) s;
        EXIT WHEN batch IS NULL;
        INSERT INTO public.conversation_session_revisions (session_id, revision)
        SELECT id, 0 FROM unnest(batch) WITH ORDINALITY AS s (id, place) ORDER BY place
        ON CONFLICT (session_id) DO NOTHING;
        COMMIT;
    END LOOP;
END $$;
REVOKE ALL ON PROCEDURE conversation.give_revision_rows(integer) FROM PUBLIC;
