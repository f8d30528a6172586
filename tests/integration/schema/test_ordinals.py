"""Prompts are numbered in order of arrival, whoever writes them; their times follow the numbers."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

pytestmark = pytest.mark.usefixtures("source")

Other = Callable[[], Awaitable[Any]]

FUTURE = datetime(2100, 1, 1, tzinfo=UTC)
PAST = datetime(2001, 1, 1, tzinfo=UTC)


async def test_prompts_count_per_session_and_agents_take_no_number(source: Any) -> None:
    rows = [
        await source.say("p1"),
        await source.say("r1", author="agent"),
        await source.say("p2"),
        await source.say("q1", session="b"),
    ]
    assert [row["prompt_seq"] for row in rows] == [1, 0, 2, 1]
    assert all(row["updated_at"] == row["created_at"] for row in rows)
    assert rows[0]["created_at"] < rows[2]["created_at"]


async def test_an_agent_message_is_given_no_number_even_if_it_brings_one(source: Any) -> None:
    assert (await source.say("r", author="agent", prompt_seq=7))["prompt_seq"] == 0


async def test_a_clock_behind_the_newest_prompt_goes_on_by_a_microsecond(source: Any) -> None:
    await source.say("p1", created_at=FUTURE)
    assert (await source.say("p2"))["created_at"] == FUTURE + timedelta(microseconds=1)
    assert (await source.say("r", author="agent"))["created_at"] < FUTURE


@pytest.mark.parametrize("offset", [timedelta(0), timedelta(microseconds=-1)])
async def test_an_explicit_time_that_is_not_later_is_refused(source: Any, offset: timedelta) -> None:
    await source.say("p1", created_at=PAST)
    with pytest.raises(asyncpg.PostgresError) as refused:
        await source.say("p2", created_at=PAST + offset)
    assert refused.value.sqlstate == "KC001"
    assert (await source.say("p3"))["prompt_seq"] == 2
    assert await source.revision() == 3


async def test_an_explicit_later_time_is_kept(source: Any) -> None:
    await source.say("p1", created_at=PAST)
    later = PAST + timedelta(microseconds=1)
    assert (await source.say("p2", created_at=later, updated_at=FUTURE))["created_at"] == later


async def test_a_supplied_number_is_kept_only_when_it_is_due(source: Any) -> None:
    assert (await source.say("p1", prompt_seq=1))["prompt_seq"] == 1
    for wrong in (1, 3, -1):
        with pytest.raises(asyncpg.PostgresError) as refused:
            await source.say("p2", prompt_seq=wrong)
        assert refused.value.sqlstate == "KC002"
    assert (await source.say("p2", prompt_seq=2))["prompt_seq"] == 2


async def test_numbers_are_never_used_again(source: Any) -> None:
    await source.say("p1")
    await source.say("p2")
    await source.execute("DELETE FROM task_session_messages")
    assert (await source.say("p3"))["prompt_seq"] == 3


async def test_a_number_cannot_be_changed(source: Any) -> None:
    await source.say("p1")
    with pytest.raises(asyncpg.PostgresError) as refused:
        await source.execute("UPDATE task_session_messages SET prompt_seq = 9")
    assert refused.value.sqlstate == "KC002"


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type) "
        "VALUES ('1', 'a', 't', 'user'), ('2', 'a', 't', 'user'), ('3', 'a', 't', 'user')",
        "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type) "
        "SELECT n::text, 'a', 't', 'user' FROM generate_series(1, 3) n",
        "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type) "
        "SELECT n::text, 'a', 't', 'user' FROM unnest(ARRAY[1, 1, 2, 3]) n ON CONFLICT DO NOTHING",
    ],
)
async def test_many_rows_at_once_are_numbered_in_their_order(source: Any, statement: str) -> None:
    await source.execute(statement)
    assert await source.ordinals() == [("1", 1), ("2", 2), ("3", 3)]
    assert await source.revision() == 2


async def test_merge_numbers_what_it_inserts(source: Any) -> None:
    await source.execute(
        "MERGE INTO task_session_messages m USING (SELECT n::text AS id FROM generate_series(1, 3) n) v ON m.id = v.id "
        "WHEN NOT MATCHED THEN INSERT (id, task_session_id, task_id, author_type) VALUES (v.id, 'a', 't', 'user')"
    )
    assert [ordinal for _, ordinal in await source.ordinals()] == [1, 2, 3]
    assert await source.revision() == 2


async def test_copy_numbers_prompts(source: Any) -> None:
    await source.connection.copy_records_to_table(
        "task_session_messages",
        records=[(str(n), "a", "t", "user") for n in range(3)],
        columns=["id", "task_session_id", "task_id", "author_type"],
    )
    assert await source.ordinals() == [("0", 1), ("1", 2), ("2", 3)]


async def test_a_conflict_takes_no_number(source: Any) -> None:
    await source.say("p1")
    insert = (
        "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type) VALUES ('p1','a','t','user')"
    )
    await source.execute(f"{insert} ON CONFLICT DO NOTHING")
    await source.execute(f"{insert} ON CONFLICT (id) DO UPDATE SET content = 'again'")
    with pytest.raises(asyncpg.UniqueViolationError):
        await source.execute(insert)
    await source.say("p2")
    assert await source.ordinals() == [("p1", 1), ("p2", 2)]


async def test_a_prompt_that_moves_arrives_anew(source: Any) -> None:
    moved = await source.say("p1", created_at=PAST)
    await source.say("p2")
    await source.say("q1", session="b")
    await source.say("q2", session="b")
    await source.execute("UPDATE task_session_messages SET task_session_id = 'b' WHERE id = 'p1'")
    assert await source.ordinals("b") == [("p1", 3), ("q1", 1), ("q2", 2)]
    assert await source.fetchval("SELECT created_at FROM task_session_messages WHERE id = 'p1'") == moved["created_at"]
    await source.say("p3")
    assert await source.ordinals("a") == [("p2", 2), ("p3", 3)]


async def test_turning_into_a_prompt_and_back(source: Any) -> None:
    await source.say("p1")
    await source.say("r1", author="agent")
    await source.execute("UPDATE task_session_messages SET author_type = 'user' WHERE id = 'r1'")
    assert dict(await source.ordinals()) == {"p1": 1, "r1": 2}
    await source.execute("UPDATE task_session_messages SET author_type = 'agent' WHERE id = 'r1'")
    assert await source.fetchval("SELECT prompt_seq FROM task_session_messages WHERE id = 'r1'") == 0
    assert (await source.say("p3"))["prompt_seq"] == 3


async def test_a_missing_session_is_named(source: Any) -> None:
    with pytest.raises(asyncpg.ForeignKeyViolationError, match="session nowhere does not exist"):
        await source.say("p", session="nowhere")


async def test_concurrent_writers_get_contiguous_numbers_in_order_of_time(source: Any, other: Other) -> None:
    writers = [await other() for _ in range(4)]

    async def write(name: int, writer: Any) -> None:
        for n in range(15):
            await writer.say(f"{name}-{n}", session="ab"[n % 2])

    await asyncio.gather(*(write(name, writer) for name, writer in enumerate(writers)))
    assert [ordinal for _, ordinal in await source.ordinals("a")] == list(range(1, 33))
    assert [ordinal for _, ordinal in await source.ordinals("b")] == list(range(1, 29))
    assert (await source.revision("a"), await source.revision("b")) == (33, 29)


async def unnumbered(source: Any, count: int) -> None:
    """Prompts as they were before their ordinals: written with the triggers off."""
    await source.execute("SET session_replication_role = replica")
    await source.execute(
        "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, created_at, updated_at) "
        "SELECT 'old' || n, s, 't', 'user', $1::timestamptz + (n / 2) * interval '1 minute', $1 "
        "FROM (VALUES ('a')) v (s), generate_series(1, $2::int) n",
        PAST,
        count,
    )
    await source.execute("SET session_replication_role = origin")


async def test_older_prompts_are_numbered_by_time_and_id(source: Any) -> None:
    await unnumbered(source, 5)
    await source.say("live")
    revision = await source.revision()
    await source.execute("CALL conversation.number_prompts()")
    expected = [("old1", 1), ("old2", 2), ("old3", 3), ("old4", 4), ("old5", 5), ("live", 6)]
    assert await source.ordinals() == expected
    assert await source.revision() == revision + 1
    await source.execute("CALL conversation.number_prompts(1)")
    assert await source.ordinals() == expected
    assert await source.revision() == revision + 1
    assert (await source.say("next"))["prompt_seq"] == 7


async def test_numbering_goes_on_past_the_first_batch(source: Any) -> None:
    await unnumbered(source, 2)
    await source.execute("SET session_replication_role = replica")
    await source.execute("UPDATE task_session_messages SET task_session_id = 'b' WHERE id = 'old2'")
    await source.execute("SET session_replication_role = origin")
    await source.execute("CALL conversation.number_prompts(1)")
    assert (await source.ordinals("a"), await source.ordinals("b")) == ([("old1", 1)], [("old2", 1)])
    assert (await source.revision("a"), await source.revision("b")) == (2, 2)
