"""Messages that hold a text, as a reader sees them: what stands inside a system block is not there to be found."""

import re

import asyncpg

from services.reader.rows import Columns
from services.reader.snapshot import HEAD_ALONE, SessionStanding, standing_of
from shared.contracts.reads import SearchHit, SessionSearch
from shared.contracts.rows import author_of, type_of
from shared.sanitizer import CLOSING, strip_system_content
from shared.times import format_microseconds

SNIPPET_CHARACTERS = 200

_FETCHED_AT_ONCE = 16
"""Candidates held at a time: each may be a very long message."""

# $1 session, $2 pattern, $3 closing tag as a pattern. Newest first along task_session_messages_keyset. A message with a
# block is a candidate whatever its text: without the block it may read differently.
_CANDIDATES = """
SELECT m.id, m.turn_id, m.author_type, m.type, m.content, m.created_at
  FROM public.task_session_messages m
 WHERE m.task_session_id = $1 AND (m.content ILIKE $2 ESCAPE '\\' OR m.content LIKE $3)
 ORDER BY m.created_at DESC, m.id COLLATE "C" DESC
"""


async def search_session(pool: asyncpg.Pool, read: SessionSearch) -> tuple[SessionStanding, tuple[SearchHit, ...]]:
    """The hits, with the standing of the one read-only repeatable-read transaction that found them and decided access.

    A blank text finds nothing.
    """
    async with pool.acquire() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
        head = await connection.fetchrow(HEAD_ALONE, read.session_id, read.identity.user, read.identity.unscoped)
        standing = standing_of(head, read)
        hits: list[SearchHit] = []
        if standing.missing or standing.behind or not read.query.strip() or "\x00" in read.query:
            return standing, ()
        wanted = re.compile(re.escape(read.query), re.IGNORECASE)
        pattern = f"%{_literal(read.query)}%"
        candidates = connection.cursor(_CANDIDATES, read.session_id, pattern, f"%{CLOSING}%", prefetch=_FETCHED_AT_ONCE)
        async for row in candidates:
            hit = _hit(row, wanted)
            if hit is not None:
                hits.append(hit)
                if len(hits) == read.limit:
                    break
    return standing, tuple(hits)


def _literal(text: str) -> str:
    """Text as a LIKE pattern that matches only itself."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _hit(row: Columns, wanted: re.Pattern[str]) -> SearchHit | None:
    content = strip_system_content(row["content"])
    match = wanted.search(content)
    if match is None:
        return None
    return SearchHit(
        id=row["id"],
        turn_id=row["turn_id"],
        author_type=author_of(row["author_type"]),
        type=type_of(row["type"]),
        snippet=snippet_around(content, match.start(), match.end()),
        created_at=format_microseconds(row["created_at"]),
    )


def snippet_around(content: str, start: int, end: int) -> str:
    """At most `SNIPPET_CHARACTERS` of the content with the span in their middle, or its beginning when it is longer."""
    room = max(0, SNIPPET_CHARACTERS - (end - start))
    first = max(0, min(start - room // 2, len(content) - SNIPPET_CHARACTERS))
    return content[first : first + SNIPPET_CHARACTERS]
