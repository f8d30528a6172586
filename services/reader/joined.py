"""Pages that several have asked for at once: who may see them, and whether they are still what the asker holds (G8).

One repeatable-read transaction decides access for each of them, names the revision, and reads the page: one snapshot,
as for every answer. Where the session still stands at the revision of the held page, no row is touched.
"""

from dataclasses import dataclass, replace

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

    `rows`: those of the page's statement; `None` where the held page is unchanged, or nobody may have one.
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
        """There, and older than the asker knows it; nobody waits for what none of them may see."""
        return self.head.behind and self.readable

    @property
    def readable(self) -> bool:
        """Whether the session is there and anybody who asks may see it."""
        return self.head.present and (bool(self.admitted) or not self.read.readers)


async def read_joined(pool: asyncpg.Pool, read: PageRead, query: Query) -> Joined:
    """The page, or that it is unchanged, from one snapshot."""
    async with pool.acquire() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
        found = await connection.fetchrow(
            _HEAD, read.session_id, read.identity.user, read.identity.unscoped, list(read.readers)
        )
        head = standing_of(found, read)
        joined = Joined(head, read, tuple(found["admitted"]), None)
        if not joined.readable or read.held == Bound(epoch=head.epoch, revision=head.revision):
            return joined
        return replace(joined, rows=await connection.fetch(query.statement, *query.parameters))
