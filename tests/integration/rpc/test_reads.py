"""Lists as the reader answers them, in databases that look different."""

import asyncpg
import pytest

from services.revision.schema.migrate import migrate
from shared.contracts.errors import RequestFailed
from shared.contracts.reads import HostMessages, Keyset
from shared.host_rpc.cursors import place_of
from shared.host_rpc.generated import plugin_pb2 as wire
from shared.times import microseconds
from tests.integration.reader.people import Reading, open_sources

# As another program has made them: times without a zone, and rows of no task.
EARLIER = """
CREATE TABLE workspaces (id text PRIMARY KEY, name text NOT NULL DEFAULT '');
CREATE TABLE tasks (id text PRIMARY KEY, workspace_id text NOT NULL, title text NOT NULL DEFAULT '');
CREATE TABLE task_sessions (id text PRIMARY KEY, task_id text NOT NULL);
CREATE TABLE task_session_messages (
    id text PRIMARY KEY, task_session_id text NOT NULL REFERENCES task_sessions ON DELETE CASCADE,
    task_id text NOT NULL DEFAULT '', turn_id text, author_type text NOT NULL, content text NOT NULL DEFAULT '',
    type text NOT NULL DEFAULT 'message', created_at timestamp NOT NULL, updated_at timestamp NOT NULL);
INSERT INTO workspaces VALUES ('w'); INSERT INTO tasks VALUES ('t', 'w'); INSERT INTO task_sessions VALUES ('s', 't');
INSERT INTO task_session_messages (id, task_session_id, author_type, created_at, updated_at)
SELECT 'm' || n, 's', 'agent', '2026-11-30T10:00:00'::timestamp + n * interval '1 us', now()
  FROM generate_series(0, 9) n;
"""
NOON = microseconds("2026-11-30T10:00:00Z")


def ids(page: wire.ListMessagesResponse) -> list[str]:
    return [message.id for message in page.messages]


@pytest.mark.parametrize(
    "leading",
    [
        HostMessages(),
        HostMessages(session_ids=("s",)),
        HostMessages(task_ids=("", "t")),
        HostMessages(types=("message",)),
    ],
)
async def test_times_without_a_zone_are_utc(empty_database_url: str, leading: HostMessages) -> None:
    connection = await asyncpg.connect(empty_database_url)
    await connection.execute(EARLIER)
    await migrate(connection)
    await connection.close()
    async with open_sources(empty_database_url) as sources:
        reader = Reading(sources)
        bounds = {"since": NOON + 2, "until": NOON + 7}
        assert ids(await reader.host_page(leading.model_copy(update=bounds))) == ["m2", "m3", "m4", "m5", "m6"]
        behind = {**bounds, "after": Keyset(time=NOON + 4, id="m4"), "limit": 1}
        page = await reader.host_page(leading.model_copy(update=behind))
        assert ids(page) == ["m5"]
        assert place_of(page.page_info.next_cursor) == Keyset(time=NOON + 5, id="m5")


async def test_a_database_without_the_schema_is_told_as_such(empty_database_url: str) -> None:
    async with open_sources(empty_database_url) as sources:
        with pytest.raises(RequestFailed, match="migrate"):
            await Reading(sources).host_page(HostMessages())


# As another program may have made them: little is NOT NULL, and nothing is of a bounded length.
UNBOUND = """
CREATE TABLE workspaces (id text PRIMARY KEY); CREATE TABLE tasks (id text PRIMARY KEY, workspace_id text NOT NULL);
CREATE TABLE task_sessions (id text PRIMARY KEY, task_id text NOT NULL);
CREATE TABLE task_session_messages (
    id text PRIMARY KEY, task_session_id text NOT NULL REFERENCES task_sessions ON DELETE CASCADE, task_id text,
    turn_id text, author_type text NOT NULL, content text, type text, created_at timestamptz NOT NULL,
    updated_at timestamptz);
INSERT INTO workspaces VALUES ('w'); INSERT INTO tasks VALUES ('t', 'w'); INSERT INTO task_sessions VALUES ('s', 't');
"""
ADD = """
INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content, type, created_at)
VALUES ($1, 's', 't', $2, $3, $4, $5::text::timestamptz)
"""
LEADING = [
    HostMessages(),
    HostMessages(session_ids=("s",)),
    HostMessages(session_ids=("s", "absent"), types=("message",)),
    HostMessages(task_ids=("t", "absent")),
    HostMessages(types=("message",)),
]


async def add_unbound(database_url: str, *rows: tuple[str, str, str | None, str | None, str]) -> None:
    """Makes such tables with these rows, and has them taken over."""
    connection = await asyncpg.connect(database_url)
    await connection.execute(UNBOUND)
    await connection.executemany(ADD, rows)
    await migrate(connection)
    await connection.close()


async def pages(reader: Reading, read: HostMessages, most: int = 20) -> list[wire.ListMessagesResponse]:
    """The pages of a list, of which there are fewer than `most`."""
    found = [await reader.host_page(read)]
    while found[-1].page_info.has_more:
        assert len(found) < most
        place = place_of(found[-1].page_info.next_cursor)
        found.append(await reader.host_page(read.model_copy(update={"after": place})))
    return found


@pytest.mark.parametrize("leading", LEADING)
@pytest.mark.parametrize("limit", [1, 2, 50])
async def test_no_row_of_anybody_ends_a_list(empty_database_url: str, leading: HostMessages, limit: int) -> None:
    await add_unbound(
        empty_database_url,
        ("a", "user", None, "message", "2026-11-01"),
        ("b", "somebody", "text", None, "2026-11-02"),
        ("c", "agent", None, None, "2026-11-02"),
        ("d", "agent", "text", "", "2026-11-03"),
        ("long" * 1000, "agent", "text", "message", "2026-11-04"),
        ("z", "agent", "text", "message", "4714-11-24 00:00:00+00 BC"),
    )
    async with open_sources(empty_database_url) as sources:
        found = await pages(Reading(sources), leading.model_copy(update={"limit": limit}))
        until = await pages(Reading(sources), leading.model_copy(update={"limit": limit, "until": NOON}))
    told = [(each.id[:4], each.author_type, each.content, each.type) for page in found for each in page.messages]
    assert told == [
        ("z", "agent", "text", "message"),
        ("a", "user", "", "message"),
        ("b", "agent", "text", "message"),
        ("c", "agent", "", "message"),
        ("d", "agent", "text", "message"),
        ("long", "agent", "text", "message"),
    ]
    assert [each for page in until for each in ids(page)] == [each for page in found for each in ids(page)]


async def test_what_is_counted_is_all_that_has_no_bound(empty_database_url: str) -> None:
    """Long ids alone would make a response of more than a client takes."""
    ids_of_100_kb = [f"{number:03}" + "i" * 100_000 for number in range(200)]
    await add_unbound(empty_database_url, *((each, "agent", "", "message", "2026-11-01") for each in ids_of_100_kb))
    async with open_sources(empty_database_url) as sources:
        found = await pages(Reading(sources), HostMessages(limit=200))
    assert [each for page in found for each in ids(page)] == ids_of_100_kb
    assert max(page.ByteSize() for page in found) < 9 << 20
