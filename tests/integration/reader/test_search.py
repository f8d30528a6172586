"""Search finds what a reader sees, and only that."""

import asyncpg
import pytest

from services.reader.search import SNIPPET_CHARACTERS
from shared.contracts.reads import SearchAnswer, SearchHit, SessionSearch
from tests.integration.reader.people import OWNER, Reading

HIDDEN = "<kandev-system>the SECRET plan</kandev-system>"


async def search(reader: Reading, query: str, limit: int = 100) -> tuple[SearchHit, ...]:
    found = await reader.answer(SessionSearch(identity=OWNER, session_id="s", query=query, limit=limit))
    assert isinstance(found, SearchAnswer)
    return found.hits


async def say(db: asyncpg.Connection, *contents: str, session: str = "s") -> None:
    for number, content in enumerate(contents):
        await db.execute(
            "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content, created_at) "
            "VALUES ($1, $2, 'task', 'agent', $3, '2026-01-01'::timestamptz + $4 * interval '1 s')",
            *(f"{session}{number}", session, content, number),
        )


@pytest.mark.parametrize("query", ["needle", "NEEDLE", "NeEdLe"])
async def test_is_blind_to_case_and_newest_first(reader: Reading, db: asyncpg.Connection, query: str) -> None:
    await say(db, "a needle", "hay", "Needles!", "NEEDLE")
    await say(db, "a needle", session="other")
    assert [hit.id for hit in await search(reader, query)] == ["s3", "s2", "s0"]
    assert [hit.id for hit in await search(reader, query, limit=2)] == ["s3", "s2"]


@pytest.mark.parametrize("query", ["100%", "a_b", "c:\\d", "(x", "[y]", "Ünder", "\\", "%", "_"])
async def test_takes_every_character_literally(reader: Reading, db: asyncpg.Connection, query: str) -> None:
    await say(db, "100 percent, axb, c:d, x, y, under", f"<{query}>")
    assert [hit.id for hit in await search(reader, query)] == ["s1"]


@pytest.mark.parametrize("query", ["", "  ", "\x00", "needle\x00"])
async def test_finds_nothing_by_what_no_content_can_hold(reader: Reading, db: asyncpg.Connection, query: str) -> None:
    await say(db, "a needle  ")
    assert await search(reader, query) == ()


async def test_does_not_find_what_only_a_system_block_holds(reader: Reading, db: asyncpg.Connection) -> None:
    await say(db, f"{HIDDEN} hello", f"no secret here {HIDDEN}", "kandev-system")
    hits = await search(reader, "secret")
    assert [(hit.id, hit.snippet) for hit in hits] == [("s1", "no secret here")]
    assert [hit.id for hit in await search(reader, "kandev-system")] == ["s2"]


async def test_finds_what_reads_together_once_a_block_is_out(reader: Reading, db: asyncpg.Connection) -> None:
    await say(db, f"bridge over {HIDDEN} water")
    hits = await search(reader, "over water")
    assert [hit.snippet for hit in hits] == ["bridge over water"]


async def test_goes_past_candidates_that_are_no_hits(reader: Reading, db: asyncpg.Connection) -> None:
    await say(db, "secret", *[HIDDEN] * 40)
    assert [hit.id for hit in await search(reader, "secret", limit=1)] == ["s0"]


@pytest.mark.parametrize("before", [0, 5, 99, 100, 500])
@pytest.mark.parametrize("after", [0, 5, 99, 100, 500])
async def test_cuts_a_snippet_around_the_match(
    reader: Reading, db: asyncpg.Connection, before: int, after: int
) -> None:
    content = "b" * before + "needle" + "a" * after
    await say(db, content)
    (hit,) = await search(reader, "needle")
    assert "needle" in hit.snippet
    assert hit.snippet in content
    assert len(hit.snippet) == min(SNIPPET_CHARACTERS, len(content))


async def test_a_match_longer_than_a_snippet_shows_its_beginning(reader: Reading, db: asyncpg.Connection) -> None:
    await say(db, "before " + "needle" * 50)
    (hit,) = await search(reader, "needle" * 50)
    assert hit.snippet == ("needle" * 50)[:SNIPPET_CHARACTERS]
