"""What the log carries: enough to name every change and its previous selection, and no more."""

from typing import Any

import pytest_asyncio


class Log:
    """Decoded changes of the test's database, in order."""

    def __init__(self, source: Any, slot: str) -> None:
        self._source = source
        self._slot = slot

    async def changes(self, table: str) -> list[str]:
        """Changes of one table since the last call."""
        rows = await self._source.fetch("SELECT data FROM pg_logical_slot_get_changes($1, NULL, NULL)", self._slot)
        return [row["data"] for row in rows if row["data"].startswith(f"table {table}:")]


@pytest_asyncio.fixture
async def log(source: Any) -> Log:
    slot = "s_" + (await source.fetchval("SELECT md5(current_database())"))[:20]
    await source.fetchval("SELECT pg_create_logical_replication_slot($1, 'test_decoding', true)", slot)
    return Log(source, slot)


async def test_the_publication_covers_the_source_and_the_epoch(source: Any) -> None:
    tables = await source.fetch(
        "SELECT schemaname || '.' || tablename FROM pg_publication_tables "
        "WHERE pubname = 'conversation_receipts' ORDER BY 1"
    )
    assert [row[0] for row in tables] == [
        "conversation.epoch",
        "public.conversation_session_revisions",
        "public.task_session_messages",
        "public.task_session_turns",
    ]
    published = await source.connection.fetchrow(
        "SELECT pubinsert, pubupdate, pubdelete, pubtruncate FROM pg_publication "
        "WHERE pubname = 'conversation_receipts'"
    )
    assert all(published)


async def test_the_previous_selection_is_logged_only_when_it_changes(source: Any, log: Log) -> None:
    await source.say("m", author="agent", content="long " * 50)
    await log.changes("public.task_session_messages")
    await source.execute("UPDATE task_session_messages SET content = 'new'")
    (change,) = await log.changes("public.task_session_messages")
    assert "old-key" not in change
    for assignment, old in (
        ("task_session_id = 'b'", "task_session_id[text]:'a'"),
        ("task_id = 't2'", "task_id[text]:'t'"),
        ("author_type = 'user'", "author_type[text]:'agent'"),
        ("created_at = created_at + interval '1 s'", "created_at["),
    ):
        await source.execute(f"UPDATE task_session_messages SET {assignment}")
        (change,) = await log.changes("public.task_session_messages")
        old_key = change.partition("old-key: ")[2].partition("new-tuple")[0]
        assert old in old_key
        assert "content" not in old_key


async def test_a_cascade_names_every_row_and_its_session(source: Any, log: Log) -> None:
    await source.say("m")
    await source.execute("INSERT INTO task_session_turns (id, task_session_id, task_id) VALUES ('u', 'a', 't')")
    last = await source.revision()
    await log.changes("public.task_session_messages")
    await source.execute("DELETE FROM task_sessions WHERE id = 'a'")
    rows = await source.fetch("SELECT data FROM pg_logical_slot_peek_changes($1, NULL, NULL)", log._slot)
    deletions = [row["data"] for row in rows if "DELETE" in row["data"]]
    assert [d.split(":")[0].removeprefix("table public.") for d in deletions][-1] == "conversation_session_revisions"
    for table in ("task_session_messages", "task_session_turns"):
        (deletion,) = [d for d in deletions if f".{table}:" in d]
        assert "task_session_id[text]:'a'" in deletion
        assert "task_id[text]:'t'" in deletion
    assert f"revision[bigint]:{last}" in deletions[-1]


async def test_a_deletion_and_a_new_life_in_one_transaction_are_told_apart(source: Any, log: Log) -> None:
    last = await source.revision()
    async with source.connection.transaction():
        await source.execute("DELETE FROM task_sessions WHERE id = 'a'")
        await source.execute("INSERT INTO task_sessions (id, task_id) VALUES ('a', 't')")
        await source.say("m", author="agent")
    removal, creation, change = await log.changes("public.conversation_session_revisions")
    assert "DELETE" in removal
    assert f"revision[bigint]:{last}" in removal
    assert f"revision[bigint]:{last + 1}" in creation
    assert change.endswith(f"new-tuple: session_id[text]:'a' revision[bigint]:{last + 2}")


async def test_a_mint_is_a_change_of_its_own(source: Any, log: Log) -> None:
    await source.fetchval("SELECT conversation.mint_epoch('restored')")
    (change,) = await log.changes("conversation.epoch")
    assert f"epoch[text]:'{await source.epoch()}'" in change
