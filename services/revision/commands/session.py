"""First and last step of a command on a conversation: its session, locked and visible, and the interval it made."""

from dataclasses import dataclass

import asyncpg

from shared.contracts.commands import CommandResult
from shared.contracts.errors import RequestFailed
from shared.contracts.identity import Identity

# Primary keys of both tables.
_OPEN = """
SELECT s.task_id,
       conversation.session_visible(s.id, $2, $3) AS visible,
       EXISTS (SELECT FROM public.conversation_session_revisions r WHERE r.session_id = s.id) AS counted
  FROM public.task_sessions s WHERE s.id = $1 FOR KEY SHARE OF s
"""

_VISIBLE = "SELECT conversation.session_visible($1, $2, $3)"

# Primary key; the epoch is one row.
_STANDING = """
SELECT e.epoch,
       coalesce((SELECT r.revision FROM public.conversation_session_revisions r WHERE r.session_id = $1), 0) AS revision
  FROM conversation.epoch e
"""


def unseen() -> RequestFailed:
    """What is not there and what the asker may not see are answered alike."""
    return RequestFailed("not_found", "there is no such session, or it is not yours to see")


@dataclass(frozen=True, slots=True)
class OpenSession:
    """A session whose row this transaction keeps from being deleted.

    `counted`: its revision row was there already. It is missing only for a session older than the migration.
    """

    id: str
    task_id: str
    counted: bool

    async def changed(self, connection: asyncpg.Connection) -> CommandResult:
        """The interval after exactly one statement changed rows of this session: its trigger advanced the revision by
        one, and holds it until the commit. A first revision begins at 0 (R1).
        """
        epoch, revision = await standing(connection, self.id)
        return CommandResult(
            session_id=self.id, epoch=epoch, base_revision=revision - 1 if self.counted else 0, revision=revision
        )

    async def unchanged(self, connection: asyncpg.Connection) -> CommandResult:
        """The answer when there was nothing to do."""
        return await unchanged(connection, self.id)


async def open_session(connection: asyncpg.Connection, identity: Identity, session_id: str) -> OpenSession:
    """Locks the session row and decides access. Raises RequestFailed `not_found`."""
    row = await connection.fetchrow(_OPEN, session_id, identity.user, identity.unscoped)
    if row is None or not row["visible"]:
        raise unseen()
    return OpenSession(session_id, row["task_id"], row["counted"])


async def sees_session(connection: asyncpg.Connection, identity: Identity, session_id: str) -> bool:
    """Whether the session is there and the asker's to see, by the rows as they are now."""
    return bool(await connection.fetchval(_VISIBLE, session_id, identity.user, identity.unscoped))


async def standing(connection: asyncpg.Connection, session_id: str) -> tuple[str, int]:
    """Epoch and present revision of a session. Raises RequestFailed `unavailable` while there is no epoch."""
    row = await connection.fetchrow(_STANDING, session_id)
    if row is None:
        raise RequestFailed("unavailable", "the source has no epoch; a running revision service makes one at once")
    return row["epoch"], row["revision"]


async def unchanged(connection: asyncpg.Connection, session_id: str) -> CommandResult:
    """The answer when there was nothing to do: both revisions are the present one."""
    epoch, revision = await standing(connection, session_id)
    return CommandResult(session_id=session_id, epoch=epoch, base_revision=revision, revision=revision)
