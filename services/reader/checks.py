"""Current revisions of many sessions in one statement, and which of their readers may still read them."""

from dataclasses import dataclass

import asyncpg

from services.reader.snapshot import no_epoch
from shared.contracts.reads import RevisionAnswer, RevisionCheck

# $1 sessions, $2 user, $3 unscoped, $4 and $5 pairs of a session and one of its readers. By primary key throughout.
# A session stands or falls with its task's workspace, for the asker and for its readers (`session_visible`): the rule
# is asked once per workspace and user, since thousands of sessions share a few. What is barred is joined, not what is
# admitted: there is almost none.
_STATEMENT = """
WITH asked AS MATERIALIZED (
        SELECT s.id, s.task_id, t.workspace_id
          FROM unnest($1::text[]) AS a (id)
          JOIN public.task_sessions s ON s.id = a.id
          LEFT JOIN public.tasks t ON t.id = s.task_id),
     visible AS MATERIALIZED (
        SELECT w.id FROM (SELECT DISTINCT workspace_id AS id FROM asked) w
         WHERE conversation.workspace_visible(w.id, $2::text, $3::boolean)),
     pairs AS MATERIALIZED (
        SELECT p.session_id, p.user_id, t.workspace_id
          FROM unnest($4::text[], $5::text[]) AS p (session_id, user_id)
          JOIN public.task_sessions s ON s.id = p.session_id
          LEFT JOIN public.tasks t ON t.id = s.task_id),
     barred AS MATERIALIZED (
        SELECT r.workspace_id, r.user_id FROM (SELECT DISTINCT workspace_id, user_id FROM pairs) r
         WHERE NOT conversation.workspace_visible(r.workspace_id, r.user_id)),
     refused AS MATERIALIZED (
        SELECT p.session_id, array_agg(p.user_id) AS users
          FROM barred b
          JOIN pairs p ON p.workspace_id IS NOT DISTINCT FROM b.workspace_id AND p.user_id = b.user_id
         GROUP BY p.session_id)
SELECT e.epoch, NOT pg_is_in_recovery() AS on_primary, seen.id, seen.task_id, seen.revision, seen.users,
       extract(epoch FROM clock_timestamp() - e.heartbeat_at)::float8 AS tracker_seconds
  FROM conversation.epoch e
  LEFT JOIN LATERAL (
        SELECT a.id, a.task_id, coalesce(r.revision, 0) AS revision, f.users
          FROM asked a
          JOIN visible v ON v.id = a.workspace_id
          LEFT JOIN public.conversation_session_revisions r ON r.session_id = a.id
          LEFT JOIN refused f ON f.session_id = a.id
       ) seen ON true
"""


@dataclass(frozen=True, slots=True)
class Checked:
    """An answer against what was asked: which sessions it lacks, and which are older than the asker knows them."""

    answer: RevisionAnswer
    check: RevisionCheck

    @property
    def primary(self) -> bool:
        """Whether the snapshot is the primary's."""
        return self.answer.primary

    @property
    def missing(self) -> bool:
        """Whether a session asked for is not there, or not the asker's or a named reader's to see, and it matters: a
        replica may know less of that than the primary.
        """
        if self.check.as_found:
            return False
        return bool(self.answer.refused) or any(session not in self.answer.revisions for session in self.check.sessions)

    @property
    def behind(self) -> bool:
        """Whether a session that is there is below its least revision."""
        return self.check.epoch == self.answer.epoch and any(
            self.answer.revisions.get(session, least) < least for session, least in self.check.least.items()
        )


async def check_revisions(pool: asyncpg.Pool, check: RevisionCheck) -> tuple[Checked, RevisionAnswer]:
    """The revisions, and their standing. Ids that PostgreSQL cannot store are of no session."""
    storable = [session for session in check.sessions if "\x00" not in session]
    pairs = [(session, user) for session in storable for user in check.readers.get(session, ())]
    found = await pool.fetch(
        _STATEMENT,
        storable,
        check.identity.user,
        check.identity.unscoped,
        [session for session, _ in pairs],
        [user for _, user in pairs],
    )
    if not found:
        raise no_epoch()
    seen = [row for row in found if row["id"] is not None]
    answer = RevisionAnswer(
        epoch=found[0]["epoch"],
        primary=found[0]["on_primary"],
        tracker_seconds=found[0]["tracker_seconds"],
        revisions={row["id"]: row["revision"] for row in seen},
        tasks={row["id"]: row["task_id"] for row in seen},
        refused={row["id"]: tuple(row["users"]) for row in seen if row["users"]},
    )
    return Checked(answer, check), answer
