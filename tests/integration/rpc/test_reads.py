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
