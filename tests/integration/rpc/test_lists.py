"""Which messages a list holds, in which order and in which form."""

import asyncio
import base64
import itertools
from typing import Any

import grpc
import pytest
from kandev_plugin_sdk import Host, MessageFilter, Page

from services.reader.host_pages import MOST_CONTENT_BYTES
from tests.integration.rpc.calls import Calls, Rows
from tests.integration.rpc.conftest import MakePlugin
from tests.support.stack import Stack


@pytest.fixture
async def rows(shared_stack: Stack) -> Rows:
    """A task with a session for one test."""
    return await Rows(shared_stack).make()


async def test_a_message_has_these_fields_and_nothing_of_a_system_block(calls: Calls, rows: Rows) -> None:
    content = " <kandev-system>planted</kandev-system>\n shown <kandev-system>still being planted"
    await rows.add("m", "2026-11-30T23:59:59.999999Z", content=content, author="user", turn="turn-1")
    (message,) = (await calls.page(task_ids=[rows.task])).messages
    assert message.content == "shown"
    assert message.created_at == "2026-11-30T23:59:59Z"
    shown = (message.id, message.session_id, message.task_id, message.turn_id, message.author_type, message.type)
    assert shown == (f"m-{rows.key}", rows.session, rows.task, "turn-1", "user", "message")
    assert b"planted" not in message.SerializeToString()
    assert b"hidden" not in message.SerializeToString()


async def test_a_type_that_no_row_names_is_message(calls: Calls, rows: Rows) -> None:
    unnamed = await rows.add("m", kind="")
    (message,) = (await calls.page(task_ids=[rows.task])).messages
    assert (message.type, message.turn_id) == ("message", "")
    # What is told is also what is found.
    assert await calls.ids(task_ids=[rows.task], types=["message"]) == [unnamed]
    assert await calls.ids(task_ids=[rows.task], types=["content"]) == []


@pytest.mark.parametrize(
    ("moment", "shown"),
    [
        ("infinity", "9999-12-31T23:59:59Z"),
        ("-infinity", "0001-01-01T00:00:00Z"),
        ("1969-12-31T23:59:59.000001Z", "1969-12-31T23:59:59Z"),
    ],
)
async def test_every_time_that_the_source_holds_can_be_told_and_passed(
    calls: Calls, rows: Rows, moment: str, shown: str
) -> None:
    names = [await rows.add(name, moment) for name in ("a", "b", "c")]
    first = await calls.page(task_ids=[rows.task], limit=1)
    assert first.messages[0].created_at == shown
    rest = await calls.page(task_ids=[rows.task], cursor=first.page_info.next_cursor)
    assert [first.messages[0].id, *(each.id for each in rest.messages)] == names


async def test_every_filter_alone_and_with_the_others(shared_stack: Stack, calls: Calls, rows: Rows) -> None:
    """Each row differs from the one that all filters want in some of what they look at."""
    other = await Rows(shared_stack).make()
    kinds = (f"wanted-{rows.key}", f"unwanted-{rows.key}")
    moments = ("2026-11-30T10:00:00Z", "2026-11-30T09:59:59.999999Z", "2026-11-30T11:00:00Z")
    table: dict[str, dict[str, str]] = {}
    for number, (session, task, kind, moment) in enumerate(
        itertools.product((rows.session, other.session), (rows.task, other.task), kinds, moments)
    ):
        name = await rows.add(f"{number:02}", moment, session=session, task=task, kind=kind)
        table[name] = {"session_ids": session, "task_ids": task, "types": kind, "at": moment}
    wanted: dict[str, Any] = {
        "session_ids": [rows.session],
        "task_ids": [rows.task],
        "types": [kinds[0]],
        "since": "2026-11-30T10:00:00Z",
        "until": "2026-11-30T11:00:00Z",
    }

    def matches(row: dict[str, str], chosen: set[str]) -> bool:
        lists = all(row[field] in wanted[field] for field in chosen - {"since", "until"})
        since = "since" not in chosen or row["at"] in (moments[0], moments[2])
        until = "until" not in chosen or row["at"] != moments[2]
        return lists and since and until

    for count in range(1, len(wanted) + 1):
        for chosen in map(set, itertools.combinations(wanted, count)):
            # Rows of other tests are of other tasks: without a list of ids or types they come, too.
            found = await calls.ids(**{field: wanted[field] for field in chosen}, limit=200)
            ours = [name for name in found if name in table]
            due = sorted(
                (name for name in table if matches(table[name], chosen)), key=lambda name: (table[name]["at"], name)
            )
            assert ours == due, chosen
            assert not chosen & {"session_ids", "task_ids", "types"} or found == due


@pytest.mark.parametrize("field", ["session_ids", "task_ids", "types"])
async def test_the_values_of_one_filter_widen_it_and_one_twice_is_one(
    shared_stack: Stack, calls: Calls, rows: Rows, field: str
) -> None:
    other = await Rows(shared_stack).make()
    kinds = [f"one-{rows.key}", f"two-{rows.key}"]
    names = [
        await rows.add("a", "2026-11-30T10:00:00Z", kind=kinds[0]),
        await rows.add("b", "2026-11-30T10:00:01Z", kind=kinds[1], session=other.session, task=other.task),
        await rows.add("c", "2026-11-30T10:00:02Z", kind=kinds[0]),
    ]
    values = {"session_ids": [rows.session, other.session], "task_ids": [rows.task, other.task], "types": kinds}[field]
    assert await calls.ids(**{field: [*values, "absent", values[0]]}) == names
    assert await calls.ids(**{field: values[:1]}) == [names[0], names[2]]
    wanted: dict[str, Any] = {field: values}
    first = await calls.page(**wanted, limit=2)
    assert [each.id for each in first.messages] == names[:2]
    assert await calls.ids(**wanted, cursor=first.page_info.next_cursor) == names[2:]


async def test_since_is_inclusive_and_until_exclusive_at_the_microsecond(calls: Calls, rows: Rows) -> None:
    names = [await rows.add(name, f"2026-11-30T10:00:00.12345{name}Z") for name in "5678"]
    for bounds, found in (
        ({"since": "2026-11-30T10:00:00.123456Z"}, names[1:]),
        ({"until": "2026-11-30T10:00:00.123456Z"}, names[:1]),
        ({"since": "2026-11-30T10:00:00.123456Z", "until": "2026-11-30T10:00:00.123457Z"}, names[1:2]),
        ({"since": "2026-11-30T10:00:00.123456Z", "until": "2026-11-30T10:00:00.123456Z"}, []),
        # A nanosecond later, and in another zone.
        ({"since": "2026-11-30T10:00:00.123456001Z"}, names[2:]),
        ({"until": "2026-11-30T10:00:00.123456001Z"}, names[:2]),
        ({"since": "2026-11-30T15:30:00.123456000+05:30"}, names[1:]),
        ({"until": "2026-11-30t01:00:00.123457-09:00"}, names[:2]),
        ({"since": "", "until": ""}, names),
        ({"since": "0000-01-01T00:00:00Z", "until": "9999-12-31T23:59:59-23:59"}, names),
    ):
        assert await calls.ids(task_ids=[rows.task], **bounds) == found, bounds


async def test_rows_of_one_moment_come_in_the_order_of_their_ids_bytes(calls: Calls, rows: Rows) -> None:
    names = [await rows.add(name) for name in ("é", "b", "a", "B", "ä", "𐐷", "_")]
    assert await calls.ids(task_ids=[rows.task]) == sorted(names, key=str.encode)


async def test_limits_and_what_tells_of_more(shared_stack: Stack, calls: Calls, rows: Rows) -> None:
    await shared_stack.pool.execute(
        "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, created_at, updated_at) "
        "SELECT $1 || '-' || lpad(n::text, 3, '0'), $2, $3, 'agent', '2026-11-30', '2026-11-30' "
        "FROM generate_series(1, 201) n",
        rows.key,
        rows.session,
        rows.task,
    )
    page = await calls.page(task_ids=[rows.task])
    for limit, count in ((0, 50), (-5, 50), (1, 1), (200, 200), (201, 200), (2**31 - 1, 200)):
        page = await calls.page(task_ids=[rows.task], limit=limit)
        assert (len(page.messages), page.page_info.has_more) == (count, True)
        assert page.page_info.next_cursor
    last = await calls.page(task_ids=[rows.task], limit=200, cursor=page.page_info.next_cursor)
    assert (len(last.messages), last.page_info.has_more, last.page_info.next_cursor) == (1, False, "")


async def test_a_cursor_is_a_place_for_whoever_brings_it(
    shared_stack: Stack, channel: grpc.aio.Channel, calls: Calls, rows: Rows, make_plugin: MakePlugin
) -> None:
    """Of another filter and another plugin: it shows nothing but what that filter finds behind it."""
    other = await Rows(shared_stack).make()
    await rows.add("a", "2026-11-30T10:00:00Z")
    await rows.add("c", "2026-11-30T10:00:02Z")
    await other.add("b", "2026-11-30T10:00:00Z")
    behind = await other.add("d", "2026-11-30T10:00:01Z")
    cursor = (await calls.page(task_ids=[rows.task], limit=1)).page_info.next_cursor
    await other.add("0", "2026-11-30T10:00:00Z")
    stranger = Calls(channel, (await make_plugin()).token)
    assert await stranger.ids(task_ids=[other.task], cursor=cursor) == [f"b-{other.key}", behind]


def encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "cursor",
    [
        *("50", "-1", "nonsense", "====", "é", "a" * 100_000, encoded("1:"), encoded("x:y"), encoded("1")),
        *(encoded(f"{10**18 - 1}0:m"), encoded(f"-{2**63}:m"), encoded("0:a\x00b")),
    ],
)
async def test_what_is_no_cursor_begins_at_the_beginning(calls: Calls, rows: Rows, cursor: str) -> None:
    name = await rows.add("m")
    assert await calls.ids(task_ids=[rows.task], cursor=cursor) == [name]


async def test_a_page_ends_where_its_bytes_reach_the_cap_and_goes_on_there(calls: Calls, rows: Rows) -> None:
    names = [await rows.add(name, content=name * (3 << 20)) for name in "abcd"]
    for tasks in ([rows.task], [rows.task, "absent"]):
        first = await calls.page(task_ids=tasks)
        assert [each.id for each in first.messages] == names[:2]
        assert first.page_info.has_more
        rest = await calls.page(task_ids=tasks, cursor=first.page_info.next_cursor)
        assert [each.id for each in rest.messages] == names[2:]
        assert not rest.page_info.has_more


@pytest.mark.parametrize("field", ["kind", "turn"])
async def test_what_plain_sql_may_make_long_ends_a_page_too(calls: Calls, rows: Rows, field: str) -> None:
    """Together these are more than a response may have, and than a page may weigh on its way."""
    long: dict[str, Any] = {field: f"{rows.key}" * 25_000}
    names = [await rows.add(f"{number:03}", **long) for number in range(100)]
    pages = [await calls.page(task_ids=[rows.task], limit=200)]
    while pages[-1].page_info.has_more:
        pages.append(await calls.page(task_ids=[rows.task], limit=200, cursor=pages[-1].page_info.next_cursor))
    assert [each.id for page in pages for each in page.messages] == names
    assert len(pages) == 3
    assert {each.turn_id for page in pages for each in page.messages} == {""}


async def test_a_message_that_no_client_could_receive_is_cut_and_does_not_bar_the_way(host: Host, rows: Rows) -> None:
    await rows.add("a", content="é" * (12 << 20))
    await rows.add("b", "2026-11-30T10:00:01Z")
    found = [message async for message in host.messages().all(MessageFilter(task_ids=(rows.task,)))]
    assert [message.id[0] for message in found] == ["a", "b"]
    assert found[0].content == "é" * (MOST_CONTENT_BYTES // 2)


async def test_10_000_rows_come_once_each_while_others_come_and_go(shared_stack: Stack, host: Host, rows: Rows) -> None:
    await shared_stack.pool.execute(
        """
        INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, created_at, updated_at)
        SELECT $1 || '-' || lpad(n::text, 5, '0'), $2, $3, 'agent',
               '2026-11-30'::timestamptz + (n / 7) * interval '1 ms', clock_timestamp()
          FROM generate_series(1, 10000) n
        """,
        rows.key,
        rows.session,
        rows.task,
    )
    removed: set[str] = set()
    listing = True

    async def disturb() -> None:
        """Deletes every ninth row, front to back and back to front, and puts others before, between and behind."""
        for number in itertools.count():
            if not listing:
                return
            victims = [f"{rows.key}-{9 * place:05}" for place in (number * 11 % 1111 + 1, 1111 - number * 7 % 1111)]
            removed.update(victims)
            await shared_stack.pool.execute("DELETE FROM task_session_messages WHERE id = ANY ($1)", victims)
            at = f"2026-11-30T00:00:0{number % 3}.{number % 1000:03}Z"
            await rows.add(f"new{number:05}", at)

    async with asyncio.TaskGroup() as group:
        group.create_task(disturb())
        found = [
            message.id async for message in host.messages().all(MessageFilter(task_ids=(rows.task,)), page_size=100)
        ]
        listing = False
    assert len(found) == len(set(found))
    first = {f"{rows.key}-{number:05}" for number in range(1, 10_001)}
    assert first - removed <= set(found)
    assert removed


async def test_reads_go_across_workspaces(shared_stack: Stack, calls: Calls, rows: Rows) -> None:
    """The instance is one to a plugin's own process: who owns a workspace is for people."""
    name = await rows.add("m")
    await shared_stack.pool.execute("INSERT INTO workspaces (id, owner_id) VALUES ($1, 'somebody')", f"w-{rows.key}")
    await shared_stack.pool.execute("UPDATE tasks SET workspace_id = $2 WHERE id = $1", rows.task, f"w-{rows.key}")
    assert await calls.ids(session_ids=[rows.session]) == [name]


async def test_the_sdk_gives_plain_values(host: Host, rows: Rows) -> None:
    name = await rows.add("m", "2026-11-30T10:00:00.5Z", content="hello", author="user")
    await rows.add("n", "2026-11-30T10:00:01Z")
    messages, page = await host.messages().list(MessageFilter(task_ids=(rows.task,)), Page(limit=1))
    (message,) = messages
    assert (message.id, message.content, message.author_type) == (name, "hello", "user")
    assert message.created_at.isoformat() == "2026-11-30T10:00:00+00:00"
    assert page.has_more
    rest, end = await host.messages().list(MessageFilter(task_ids=(rows.task,)), Page(cursor=page.next_cursor))
    assert [each.id[0] for each in rest] == ["n"]
    assert (end.has_more, end.next_cursor) == (False, "")
