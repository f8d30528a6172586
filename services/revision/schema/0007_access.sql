-- Who may see what, written once. Each answers false for what does not exist, so that the two look alike.
-- With the caller's rights and in the caller's snapshot: the decision belongs to the read it guards.

CREATE OR REPLACE FUNCTION conversation.workspace_visible(workspace_id text, user_id text, unscoped boolean DEFAULT false)
RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT EXISTS (
        SELECT 1 FROM public.workspaces w
         WHERE w.id = $1
           AND ($3 OR w.owner_id IN ('', $2)
                OR EXISTS (SELECT 1 FROM public.workspace_members m WHERE m.workspace_id = w.id AND m.user_id = $2)))
$$;

CREATE OR REPLACE FUNCTION conversation.task_visible(task_id text, user_id text, unscoped boolean DEFAULT false)
RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce((SELECT conversation.workspace_visible(t.workspace_id, $2, $3) FROM public.tasks t WHERE t.id = $1), false)
$$;

CREATE OR REPLACE FUNCTION conversation.session_visible(session_id text, user_id text, unscoped boolean DEFAULT false)
RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce((SELECT conversation.task_visible(s.task_id, $2, $3) FROM public.task_sessions s WHERE s.id = $1), false)
$$;
