-- Revisions, the epoch and prompt ordinals, kept by triggers for every writer.
--
-- Lock order: session row FOR KEY SHARE, message and turn rows, ordinal counter, revision row.
-- Every function that writes for a caller runs with its owner's rights and a pinned search_path: a writer needs rights
-- on the rows it writes and on nothing else.

-- R1. The lock is taken in a subtransaction that is always rolled back: that releases it at once, whatever happens
-- in between, while the sequence keeps its value. Held any longer, it would join lock cycles.
-- A last revision that no counting explains would leave no room for the sessions to come: it ends the epoch instead.
CREATE OR REPLACE FUNCTION conversation.raise_revision_floor(last bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    minimum bigint;
BEGIN
    IF last >= 4503599627370496 THEN
        PERFORM conversation.mint_epoch(format('a session ended at revision %s', last));
        RETURN;
    END IF;
    minimum := last + 1;
    IF (SELECT last_value FROM conversation.revision_floor) >= minimum THEN
        RETURN;
    END IF;
    BEGIN
        PERFORM pg_advisory_xact_lock(7205, 1);
        IF (SELECT last_value FROM conversation.revision_floor) < minimum THEN
            PERFORM setval('conversation.revision_floor', minimum);
        END IF;
        RAISE EXCEPTION 'release the lock' USING ERRCODE = 'KC900';
    EXCEPTION WHEN SQLSTATE 'KC900' THEN
        NULL;
    END;
END $$;

CREATE OR REPLACE FUNCTION conversation.mint_epoch(cause text) RETURNS text
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO conversation.epoch AS e (epoch, reason) VALUES (gen_random_uuid()::text, cause)
    ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch, reason = excluded.reason, minted_at = excluded.minted_at
    RETURNING e.epoch
$$;
REVOKE ALL ON FUNCTION conversation.mint_epoch(text), conversation.raise_revision_floor(bigint) FROM PUBLIC;

-- Advances each of these sessions by one, in session order. A session that exists without a revision row gets one, in
-- two steps so that the log shows the interval (0, floor + 1]; one that is gone gets none.
CREATE OR REPLACE FUNCTION conversation.advance_revisions(touched text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held    text[];
    without text[];
BEGIN
    SELECT array_agg(r.session_id) INTO held
      FROM (SELECT session_id FROM public.conversation_session_revisions
             WHERE session_id = ANY (touched) ORDER BY session_id FOR NO KEY UPDATE) r;
    UPDATE public.conversation_session_revisions SET revision = revision + 1 WHERE session_id = ANY (held);
    IF cardinality(held) = cardinality(touched) THEN
        RETURN;
    END IF;
    SELECT array_agg(s.id ORDER BY s.id) INTO without
      FROM public.task_sessions s WHERE s.id = ANY (touched) AND s.id <> ALL (coalesce(held, '{}'));
    IF without IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO public.conversation_session_revisions (session_id, revision)
    SELECT session_id, 0 FROM unnest(without) WITH ORDINALITY AS s (session_id, place) ORDER BY place
    ON CONFLICT (session_id) DO NOTHING;
    -- Only the rows just inserted stand at 0; one that another writer put in meanwhile goes on from where it is.
    UPDATE public.conversation_session_revisions
       SET revision = CASE revision WHEN 0 THEN (SELECT last_value FROM conversation.revision_floor) ELSE revision END + 1
     WHERE session_id = ANY (without);
END $$;
REVOKE ALL ON FUNCTION conversation.advance_revisions(text[]) FROM PUBLIC;

-- The three statement triggers try the usual case first, one session that has its row, in a single statement.
-- Inserts and deletes differ only in which rows there are to look at.
CREATE OR REPLACE FUNCTION conversation.rows_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    touched text[];
BEGIN
    UPDATE public.conversation_session_revisions SET revision = revision + 1
     WHERE session_id = (
        SELECT min(task_session_id) FROM changed_rows HAVING min(task_session_id) = max(task_session_id));
    IF NOT FOUND THEN
        SELECT array_agg(DISTINCT task_session_id) INTO touched FROM changed_rows;
        IF touched IS NOT NULL THEN
            PERFORM conversation.advance_revisions(touched);
        END IF;
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION conversation.rows_updated() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    touched text[];
BEGIN
    UPDATE public.conversation_session_revisions SET revision = revision + 1
     WHERE session_id = (
        SELECT min(task_session_id)
          FROM (SELECT task_session_id FROM old_rows UNION ALL SELECT task_session_id FROM new_rows) r
        HAVING min(task_session_id) = max(task_session_id));
    IF NOT FOUND THEN
        SELECT array_agg(DISTINCT task_session_id) INTO touched
          FROM (SELECT task_session_id FROM old_rows UNION ALL SELECT task_session_id FROM new_rows) r;
        IF touched IS NOT NULL THEN
            PERFORM conversation.advance_revisions(touched);
        END IF;
    END IF;
    RETURN NULL;
END $$;

-- BEFORE: the rows can still be read.
CREATE OR REPLACE FUNCTION conversation.rows_truncated() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    touched text[];
BEGIN
    EXECUTE format('SELECT array_agg(DISTINCT task_session_id) FROM %I.%I', TG_TABLE_SCHEMA, TG_TABLE_NAME)
       INTO touched;
    IF touched IS NOT NULL THEN
        PERFORM conversation.advance_revisions(touched);
    ELSE
        -- The log shows a truncation without any revision change. Writing the epoch as it is says that this was looked at:
        -- otherwise it would look as if the triggers were off (T4).
        UPDATE conversation.epoch SET epoch = epoch;
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION conversation.sessions_created() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO public.conversation_session_revisions (session_id, revision)
    SELECT n.id, f.last_value FROM new_rows n, conversation.revision_floor f ORDER BY n.id
    ON CONFLICT (session_id) DO NOTHING;
    RETURN NULL;
END $$;

-- What no statement on rows leads to: a revision that goes back, one that jumps, one that starts far from the floor.
-- A jump would raise the floor with the session's deletion, for every session to come.
CREATE OR REPLACE FUNCTION conversation.revision_refused() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    known bigint := CASE TG_OP WHEN 'UPDATE' THEN OLD.revision ELSE 0 END;
BEGIN
    IF NEW.revision < known THEN
        RAISE EXCEPTION 'the revision of session % cannot go from % back to %', OLD.session_id, known, NEW.revision
            USING ERRCODE = 'KC003', HINT = 'Revisions only grow. After a logical restore, mint a new epoch instead.';
    END IF;
    -- A session begins at the floor, or gets there from 0 with its first change.
    IF known = 0 AND NEW.revision <= (SELECT last_value FROM conversation.revision_floor) + 1 THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'the revision of session % cannot jump from % to %', NEW.session_id, known, NEW.revision
        USING ERRCODE = 'KC003', HINT = 'Every statement on rows advances a revision by one: leave it to the triggers.';
END $$;

-- BEFORE and per row: the floor is up before anything else of the same statement can create that id again.
CREATE OR REPLACE FUNCTION conversation.revision_row_leaving() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM conversation.raise_revision_floor(OLD.revision);
    RETURN OLD;
END $$;

-- A session that stays without its row would read as revision 0 again.
CREATE OR REPLACE FUNCTION conversation.revision_rows_deleted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM old_rows o JOIN public.task_sessions s ON s.id = o.session_id) THEN
        PERFORM conversation.mint_epoch('revision rows of living sessions were deleted');
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION conversation.revision_rows_truncated() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM conversation.raise_revision_floor(coalesce(max(revision), 0)) FROM public.conversation_session_revisions;
    PERFORM conversation.mint_epoch('revisions were truncated');
    RETURN NULL;
END $$;

-- The ordinal that is due in the session, its counter locked until the end of the transaction. A counter that is not
-- there yet counts the prompts that came before it.
CREATE OR REPLACE FUNCTION conversation.take_prompt_seq(session text) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    due integer;
BEGIN
    UPDATE public.task_session_prompt_seq SET last_seq = last_seq + 1
     WHERE task_session_id = session RETURNING last_seq INTO due;
    IF NOT FOUND THEN
        INSERT INTO public.task_session_prompt_seq AS c (task_session_id, last_seq)
        SELECT session, 1 + greatest(count(*), max(prompt_seq))
          FROM public.task_session_messages WHERE task_session_id = session AND author_type = 'user'
        ON CONFLICT (task_session_id) DO UPDATE SET last_seq = c.last_seq + 1
        RETURNING last_seq INTO due;
    END IF;
    RETURN due;
END $$;
REVOKE ALL ON FUNCTION conversation.take_prompt_seq(text) FROM PUBLIC;

-- Columns without a time zone hold UTC, whatever zone the writer's session is in.
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
    due := conversation.take_prompt_seq(NEW.task_session_id);
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

-- A user message that comes from another session, or was an agent's, arrives anew: it keeps its time and takes an ordinal.
CREATE OR REPLACE FUNCTION conversation.message_reassigned() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    due integer;
BEGIN
    IF NEW.author_type IS DISTINCT FROM 'user' THEN
        NEW.prompt_seq := 0;
        RETURN NEW;
    END IF;
    IF OLD.author_type = 'user' AND OLD.task_session_id = NEW.task_session_id THEN
        IF OLD.prompt_seq <> 0 THEN
            RAISE EXCEPTION 'message % has ordinal % and cannot be renumbered', OLD.id, OLD.prompt_seq
                USING ERRCODE = 'KC002', HINT = 'Leave prompt_seq out of the update.';
        END IF;
        RETURN NEW;
    END IF;
    IF OLD.task_session_id <> NEW.task_session_id THEN
        PERFORM 1 FROM public.task_sessions WHERE id = NEW.task_session_id FOR KEY SHARE;
        IF NOT FOUND THEN
            RAISE foreign_key_violation USING MESSAGE = format('session %s does not exist', NEW.task_session_id);
        END IF;
    END IF;
    due := conversation.take_prompt_seq(NEW.task_session_id);
    IF coalesce(NEW.prompt_seq, 0) NOT IN (0, OLD.prompt_seq, due) THEN
        RAISE EXCEPTION 'message % brings ordinal %, but % is due in session %', NEW.id, NEW.prompt_seq, due, NEW.task_session_id
            USING ERRCODE = 'KC002', HINT = 'Leave prompt_seq out: it is assigned on arrival.';
    END IF;
    NEW.prompt_seq := due;
    RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER conversation_message_arriving BEFORE INSERT ON public.task_session_messages
    FOR EACH ROW WHEN (NEW.author_type = 'user' OR NEW.created_at IS NULL OR NEW.updated_at IS NULL OR NEW.prompt_seq <> 0)
    EXECUTE FUNCTION conversation.message_arriving();
CREATE OR REPLACE TRIGGER conversation_message_reassigned
    BEFORE UPDATE OF task_session_id, author_type, prompt_seq ON public.task_session_messages
    FOR EACH ROW WHEN (OLD.task_session_id <> NEW.task_session_id OR OLD.author_type <> NEW.author_type
                       OR OLD.prompt_seq <> NEW.prompt_seq)
    EXECUTE FUNCTION conversation.message_reassigned();

CREATE OR REPLACE TRIGGER conversation_rows_inserted AFTER INSERT ON public.task_session_messages
    REFERENCING NEW TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION conversation.rows_changed();
CREATE OR REPLACE TRIGGER conversation_rows_updated AFTER UPDATE ON public.task_session_messages
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION conversation.rows_updated();
CREATE OR REPLACE TRIGGER conversation_rows_deleted AFTER DELETE ON public.task_session_messages
    REFERENCING OLD TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION conversation.rows_changed();
CREATE OR REPLACE TRIGGER conversation_rows_truncated BEFORE TRUNCATE ON public.task_session_messages
    FOR EACH STATEMENT EXECUTE FUNCTION conversation.rows_truncated();

CREATE OR REPLACE TRIGGER conversation_rows_inserted AFTER INSERT ON public.task_session_turns
    REFERENCING NEW TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION conversation.rows_changed();
CREATE OR REPLACE TRIGGER conversation_rows_updated AFTER UPDATE ON public.task_session_turns
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION conversation.rows_updated();
CREATE OR REPLACE TRIGGER conversation_rows_deleted AFTER DELETE ON public.task_session_turns
    REFERENCING OLD TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION conversation.rows_changed();
CREATE OR REPLACE TRIGGER conversation_rows_truncated BEFORE TRUNCATE ON public.task_session_turns
    FOR EACH STATEMENT EXECUTE FUNCTION conversation.rows_truncated();

CREATE OR REPLACE TRIGGER conversation_sessions_created AFTER INSERT ON public.task_sessions
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION conversation.sessions_created();

-- AFTER, not BEFORE: a BEFORE UPDATE row trigger would lock the tuple once more, and log that, at every commit.
CREATE OR REPLACE TRIGGER conversation_revision_refused AFTER UPDATE ON public.conversation_session_revisions
    FOR EACH ROW WHEN (NEW.revision < OLD.revision OR NEW.revision - OLD.revision > 1000000)
    EXECUTE FUNCTION conversation.revision_refused();
CREATE OR REPLACE TRIGGER conversation_revision_start_refused AFTER INSERT ON public.conversation_session_revisions
    FOR EACH ROW WHEN (NEW.revision > 1000000) EXECUTE FUNCTION conversation.revision_refused();
CREATE OR REPLACE TRIGGER conversation_revision_row_leaving BEFORE DELETE ON public.conversation_session_revisions
    FOR EACH ROW EXECUTE FUNCTION conversation.revision_row_leaving();
CREATE OR REPLACE TRIGGER conversation_revision_rows_deleted AFTER DELETE ON public.conversation_session_revisions
    REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION conversation.revision_rows_deleted();
CREATE OR REPLACE TRIGGER conversation_revision_rows_truncated BEFORE TRUNCATE ON public.conversation_session_revisions
    FOR EACH STATEMENT EXECUTE FUNCTION conversation.revision_rows_truncated();

-- Made anew even where it exists: cascades follow the order of creation, and the revision row has to go last.
ALTER TABLE public.conversation_session_revisions
    DROP CONSTRAINT IF EXISTS conversation_session_revisions_session_id_fkey;
ALTER TABLE public.conversation_session_revisions
    ADD CONSTRAINT conversation_session_revisions_session_id_fkey
    FOREIGN KEY (session_id) REFERENCES public.task_sessions (id) ON DELETE CASCADE;
