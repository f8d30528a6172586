"""Current revisions of many sessions in one statement, and which of their readers may still read them."""

from dataclasses import dataclass

import asyncpg

from services.reader.snapshot import no_epoch
from shared.contracts.reads import RevisionAnswer, RevisionCheck

# $1 sessions, $2 user, $3 unscoped, $4 and $5 pairs of a session and one of its readers. By primary key throughout.
# A reader's pair stands or falls with the session's workspace: the rule is asked once per user and workspace, since
# hundreds of sessions share a few.
_STATEMENT = """
WITH pairs AS MATERIALIZED (
        SELECT p.session_id, p.user_id, t.workspace_id
          FROM unnest($4::text[], $5::text[]) AS p (session_id, user_id)
          JOIN public.task_sessions s ON s.id = p.session_id
          LEFT JOIN public.tasks t ON t.id = s.task_id),
     readers AS MATERIALIZED (
        SELECT DISTINCT workspace_id, user_id FROM pairs),
     admitted AS MATERIALIZED (
        SELECT workspace_id, user_id FROM readers WHERE conversation.workspace_visible(workspace_id, user_id)),
     refused AS MATERIALIZED (
        SELECT p.session_id, array_agg(p.user_id) AS users
          FROM pairs p
          LEFT JOIN admitted a ON a.workspace_id = p.workspace_id AND a.user_id = p.user_id
         WHERE a.user_id IS NULL
         GROUP BY p.session_id)
SELECT e.epoch, NOT pg_is_in_recovery() AS on_primary, seen.id, seen.task_id, seen.revision, seen.users
  FROM conversation.epoch e
  LEFT JOIN LATERAL (
        SELECT s.id, s.task_id, coalesce(r.revision, 0) AS revision, f.users
          FROM public.task_sessions s
          LEFT JOIN public.conversation_session_revisions r ON r.session_id = s.id
          LEFT JOIN refused f ON f.session_id = s.id
         WHERE s.id = ANY ($1::text[]) AND conversation.session_visible(s.id, $2::text, $3::boolean)
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
        """Whether a session asked for is not there, or not the asker's to see."""
        return any(session not in self.answer.revisions for session in self.check.sessions)

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
        revisions={row["id"]: row["revision"] for row in seen},
        tasks={row["id"]: row["task_id"] for row in seen},
        refused={row["id"]: tuple(row["users"]) for row in seen if row["users"]},
    )
    return Checked(answer, check), answer
