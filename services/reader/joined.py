"""Pages that several have asked for at once: who may see them, and whether they are still what the asker holds (G8).

One repeatable-read transaction decides access for each of them, names the revision, and reads the page: one snapshot,
as for every answer. Where the session still stands at the revision of the held page, no row is touched.
"""

from dataclasses import dataclass

import asyncpg

from services.reader.pages import Query
from services.reader.rows import Columns
from services.reader.snapshot import HEAD, SessionStanding, standing_of
from shared.contracts.reads import Bound, PageRead

# $4 users. By primary key throughout.
_HEAD = f"""
WITH {HEAD}
SELECT head.*, ARRAY (SELECT u.id FROM unnest($4::text[]) AS u (id) WHERE conversation.session_visible($1, u.id))
       AS admitted
  FROM head
"""  # noqa: S608 - a literal


@dataclass(frozen=True, slots=True)
class Joined:
    """A snapshot's head, and who of the read's readers may see its session; a `Standing` for all of them.

    `rows`: those of the page's statement, or `None` where the held page is unchanged.
    """

    head: SessionStanding
    read: PageRead
    admitted: tuple[str, ...]
    rows: list[Columns] | None

    @property
    def primary(self) -> bool:
        """Whether the snapshot is the primary's."""
        return self.head.primary

    @property
    def missing(self) -> bool:
        """Not there, or not a reader's to see: a replica may know less of that than the primary."""
        return self.head.missing or len(self.admitted) < len(self.read.readers)

    @property
    def behind(self) -> bool:
        """There, and older than the asker knows it."""
        return self.head.behind

    @property
    def awaited(self) -> bool:
        """Missing, although the asker knows of a revision."""
        return self.head.awaited


async def read_joined(pool: asyncpg.Pool, read: PageRead, query: Query) -> Joined:
    """The page, or that it is unchanged, from one snapshot."""
    async with pool.acquire() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
        found = await connection.fetchrow(
            _HEAD, read.session_id, read.identity.user, read.identity.unscoped, list(read.readers)
        )
        head = standing_of(found, read)
        rows = None if _is_held(head, read) else await connection.fetch(query.statement, *query.parameters)
        return Joined(head, read, tuple(found["admitted"]), rows)


def _is_held(head: SessionStanding, read: PageRead) -> bool:
    return head.present and read.held == Bound(epoch=head.epoch, revision=head.revision)
