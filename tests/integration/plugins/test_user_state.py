"""What plugins keep for users: statuses, limits, order of checks, staleness, notifications."""

import asyncio
import contextlib
import itertools
import math
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import orjson
import pytest

from services.gateway.plugins.user_state import (
    ENTRY_BYTES,
    LISTS_AT_ONCE,
    MOST_BYTES,
    MOST_ENTRIES,
    Place,
    UserState,
)
from shared.metadata import MAX_DEPTH
from tests.support.plugins import install, set_status
from tests.support.stack import Stack
from tests.support.waiting import eventually

Json = dict[str, Any]  # any: bodies are looked at field by field

_numbers = itertools.count()

ACTION = "plugin.user-state.updated"


@pytest.fixture
async def plugin(shared_stack: Stack) -> str:
    """The path of a plugin's state, of a plugin of the test's own."""
    name = f"keeper{next(_numbers)}"
    await install(shared_stack, name)
    return f"/api/plugins/{name}/user-state"


async def test_a_value_comes_back_as_it_was_put(shared_stack: Stack, plugin: str) -> None:
    texts = ["", "text", "\x00", "עברית \u202e", "🙂" * 1000]
    values: list[Any] = [None, False, 0, 1.0, -5, 2**63, *texts, [], {}, {"b": 1, "a": {"\x00": [None]}}]
    for value in values:
        status, put = await shared_stack.call("PUT", f"{plugin}/task/t-1/key", json={"value": value})
        assert status == 200, put
        status, got = await shared_stack.call("GET", f"{plugin}/task/t-1/key")
        assert (status, got) == (200, {"value": value, "updatedAt": put["updatedAt"]})
        if isinstance(value, dict):
            assert orjson.dumps(got["value"]) == orjson.dumps(value)


@pytest.mark.parametrize(
    "number",
    [
        "18446744073709551616",
        "-9223372036854775809",
        "1" * 100_000,
        "0.1234567890123456789",
        "1e-400",
        f"1e-{'9' * 30}",
    ],
)
async def test_a_number_that_would_become_another_is_refused(shared_stack: Stack, plugin: str, number: str) -> None:
    body = f'{{"value": {{"a": ["\\"1.5", {number}]}}}}'.encode()
    status, told = await shared_stack.call("PUT", f"{plugin}/task/t/k", data=body)
    assert status == 400
    assert "give it as text" in str(told["error"])
    assert number not in str(told["error"])
    assert (await shared_stack.call("GET", f"{plugin}/task/t/k"))[0] == 404


@pytest.mark.parametrize(
    "number", ["18446744073709551615", "-9223372036854775808", "0.30000000000000004", "1E5", "-0.0"]
)
async def test_a_number_that_stays_what_it_is_is_kept(shared_stack: Stack, plugin: str, number: str) -> None:
    body = f'{{"value": [{number}, "{"9" * 40}"]}}'.encode()
    assert (await shared_stack.call("PUT", f"{plugin}/task/t/k", data=body))[0] == 200
    kept = await shared_stack.pool.fetchval(
        "SELECT value::text FROM gateway.plugin_user_state WHERE plugin_id = $1", plugin.split("/")[3]
    )
    assert Decimal(kept.removeprefix("[").partition(",")[0]) == Decimal(number)


FILL = """
INSERT INTO gateway.plugin_user_state (plugin_id, user_id, scope, scope_id, key, value)
SELECT $1, user_id, 'task', $2, 'filled' || number, $3
  FROM generate_series(1, $4) AS number,
       (SELECT DISTINCT user_id FROM gateway.plugin_user_state WHERE plugin_id = $1) AS known
"""


async def test_a_scope_holds_so_many_entries_and_no_more(shared_stack: Stack, plugin: str) -> None:
    name = plugin.split("/")[3]
    await shared_stack.call("PUT", f"{plugin}/task/t/first", json={"value": 1})
    await shared_stack.pool.execute(FILL, name, "t", "1", MOST_ENTRIES - 3)
    answers = await asyncio.gather(
        *(shared_stack.call("PUT", f"{plugin}/task/t/more{number}", json={"value": 1}) for number in range(6))
    )
    assert sorted(status for status, _ in answers) == [200, 200, 409, 409, 409, 409]
    assert "delete one first" in str(next(body for status, body in answers if status == 409)["error"])
    assert (await shared_stack.call("PUT", f"{plugin}/task/t/first", json={"value": 2}))[0] == 200
    assert (await shared_stack.call("PUT", f"{plugin}/task/other/first", json={"value": 2}))[0] == 200
    assert (await shared_stack.call("DELETE", f"{plugin}/task/t/first"))[0] == 200
    assert (await shared_stack.call("PUT", f"{plugin}/task/t/another", json={"value": 2}))[0] == 200


async def test_a_plugin_keeps_so_many_bytes_for_a_user_and_no_more(shared_stack: Stack, plugin: str) -> None:
    large = "x" * 200_000
    answers = await asyncio.gather(
        *(
            shared_stack.call("PUT", f"{plugin}/task/t{number}/k", json={"value": large})
            for number in range(MOST_BYTES // len(large) + 4)
        )
    )
    kept = [status for status, _ in answers].count(200)
    assert kept == MOST_BYTES // (len(large) + 2 + len("k") + len("t00") + ENTRY_BYTES)
    assert {status for status, _ in answers} == {200, 413}
    assert "delete some first" in str(next(body for status, body in answers if status == 413)["error"])
    there = next(number for number, (status, _) in enumerate(answers) if status == 200)
    place = f"{plugin}/task/t{there}/k"
    assert (await shared_stack.call("PUT", place, json={"value": large[1:]}))[0] == 200
    assert (await shared_stack.call("PUT", f"{plugin}/instance/x/k", json={"value": large}))[0] == 413
    assert (await shared_stack.call("DELETE", place))[0] == 200
    assert (await shared_stack.call("PUT", f"{plugin}/instance/x/k", json={"value": large}))[0] == 200


async def test_what_is_above_the_bound_already_can_be_made_less(shared_stack: Stack, plugin: str) -> None:
    name = plugin.split("/")[3]
    await shared_stack.call("PUT", f"{plugin}/task/t/first", json={"value": "first"})
    await shared_stack.pool.execute(FILL, name, "t", f'"{"x" * MOST_BYTES}"', 1)
    assert (await shared_stack.call("PUT", f"{plugin}/task/t/first", json={"value": "longer"}))[0] == 413
    assert (await shared_stack.call("PUT", f"{plugin}/task/t/first", json={"value": "less"}))[0] == 200


async def test_few_lists_are_held_at_once(shared_stack: Stack, plugin: str) -> None:
    state = UserState(shared_stack.pool)
    place = Place(plugin.split("/")[3], "somebody", "task", "t")
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(LISTS_AT_ONCE):
            await stack.enter_async_context(state.listed(place))
        waiting = asyncio.create_task(stack.enter_async_context(state.listed(place)))
        await eventually(lambda: asyncio.sleep(0, result=state._listing._waiters), bool)
        assert not waiting.done()
        waiting.cancel()


async def test_scopes_their_ids_and_keys_are_apart(shared_stack: Stack, plugin: str) -> None:
    places = [
        f"{scope}/{name}" for scope in ("instance", "workspace", "task", "session", "repository") for name in "xy"
    ]
    for place in places:
        await shared_stack.call("PUT", f"{plugin}/{place}/key", json={"value": place})
    for place in places:
        status, listed = await shared_stack.call("GET", f"{plugin}/{place}")
        assert status == 200
        assert [(entry["key"], entry["value"]) for entry in listed["entries"]] == [("key", place)]  # type: ignore[attr-defined] # a list, as the document says


async def test_a_list_is_ordered_by_the_bytes_of_its_keys(shared_stack: Stack, plugin: str) -> None:
    keys = ["b", "a", "B", "a:1", "a.1", "a-1", "a_1", "0", "Z"]
    for key in keys:
        await shared_stack.call("PUT", f"{plugin}/instance/x/{key}", json={"value": 1})
    _, listed = await shared_stack.call("GET", f"{plugin}/instance/x")
    assert [entry["key"] for entry in listed["entries"]] == sorted(keys)  # type: ignore[attr-defined] # a list, as the document says


async def test_deleting_is_answered_alike_whether_there_was_something_or_not(shared_stack: Stack, plugin: str) -> None:
    path = f"{plugin}/session/s/key"
    await shared_stack.call("PUT", path, json={"value": 1})
    for _ in range(2):
        assert await shared_stack.call("DELETE", path) == (200, {"deleted": True})
        assert (await shared_stack.call("GET", path))[0] == 404


async def test_a_stale_writer_is_refused_and_changes_nothing(shared_stack: Stack, plugin: str) -> None:
    path = f"{plugin}/session/s/key"
    _, first = await shared_stack.call("PUT", path, json={"value": 1})
    _, second = await shared_stack.call("PUT", path, json={"value": 2, "ifUnmodifiedSince": first["updatedAt"]})
    status, body = await shared_stack.call("PUT", path, json={"value": 3, "ifUnmodifiedSince": first["updatedAt"]})
    assert status == 409, body
    assert await shared_stack.call("GET", path) == (200, {"value": 2, "updatedAt": second["updatedAt"]})
    await shared_stack.call("DELETE", path)
    status, _ = await shared_stack.call("PUT", path, json={"value": 4, "ifUnmodifiedSince": second["updatedAt"]})
    assert status == 409
    assert (await shared_stack.call("GET", path))[0] == 404


async def test_of_many_who_saw_the_same_one_writes(shared_stack: Stack, plugin: str) -> None:
    path = f"{plugin}/session/s/key"
    _, seen = await shared_stack.call("PUT", path, json={"value": "first"})
    answers = await asyncio.gather(
        *(
            shared_stack.call("PUT", path, json={"value": number, "ifUnmodifiedSince": seen["updatedAt"]})
            for number in range(8)
        )
    )
    assert sorted(status for status, _ in answers) == [200] + [409] * 7


async def test_times_of_a_key_increase_even_if_the_clock_does_not(shared_stack: Stack, plugin: str) -> None:
    path = f"{plugin}/session/s/key"
    await shared_stack.call("PUT", path, json={"value": 1})
    ahead = "UPDATE gateway.plugin_user_state SET updated_at = '2100-01-01T00:00:00Z' WHERE plugin_id = $1"
    await shared_stack.pool.execute(ahead, plugin.split("/")[3])
    _, put = await shared_stack.call("PUT", path, json={"value": 2})
    assert put == {"updatedAt": "2100-01-01T00:00:00.000001Z"}
    _, put = await shared_stack.call("PUT", path, json={"value": 2, "ifUnmodifiedSince": put["updatedAt"]})
    assert put == {"updatedAt": "2100-01-01T00:00:00.000002Z"}


async def test_the_order_of_checks(shared_stack: Stack, plugin: str) -> None:
    incapable = f"incapable{next(_numbers)}"
    await install(shared_stack, incapable, user_state=False)
    too_large = b"x" * (256 * 1024 + 1)
    # Unknown plugin, then the capability, then names, then the size, then what the body says.
    for path, body, expected in (
        ("/api/plugins/unknown/user-state/bad/-/-", too_large, 404),
        (f"/api/plugins/{incapable}/user-state/bad/-/-", too_large, 403),
        (f"{plugin}/bad/-/-", too_large, 400),
        (f"{plugin}/task/-/-", too_large, 400),
        (f"{plugin}/task/t/-", too_large, 400),
        (f"{plugin}/task/t/k", too_large, 413),
        (f"{plugin}/task/t/k", b"no JSON", 400),
    ):
        status, found = await shared_stack.call("PUT", path, data=body)
        assert (status, list(found)) == (expected, ["error"]), path


async def test_an_inactive_plugin_is_not_found(shared_stack: Stack, plugin: str) -> None:
    name = plugin.split("/")[3]
    for status in ("disabled", "error", "registered"):
        await set_status(shared_stack, name, status)
        assert (await shared_stack.call("GET", f"{plugin}/task/t"))[0] == 404
    await set_status(shared_stack, name, "active")
    assert (await shared_stack.call("GET", f"{plugin}/task/t"))[0] == 200


@pytest.mark.parametrize("name", ["-a", ".a", "a%2Fb", "a b", "a%0A", "%C3%A9", "a" * 129, "%00", "a%00", "%ff", "_a"])
async def test_names_that_may_not_be(shared_stack: Stack, plugin: str, name: str) -> None:
    for path in (f"task/{name}", f"task/{name}/k", f"task/t/{name}"):
        for method in ("GET", "DELETE"):
            if method == "DELETE" and path.count("/") == 1:
                continue
            assert (await shared_stack.call(method, f"{plugin}/{path}"))[0] == 400, path
    assert (await shared_stack.call("PUT", f"{plugin}/task/t/{name}", json={"value": 1}))[0] == 400


@pytest.mark.parametrize("name", ["a", "9", "A.b_c:d-e", "a" * 128])
async def test_names_that_may_be(shared_stack: Stack, plugin: str, name: str) -> None:
    assert (await shared_stack.call("PUT", f"{plugin}/task/{name}/{name}", json={"value": 1}))[0] == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"value": NaN}',
        b'{"value": 1.2.3}',
        b'{"value": "\\ud800"}',
        b'{"value": "\xff"}',
        b'{"value": 1, "writerId": 7}',
        b'{"value": 1, "writerId": "' + b"w" * 256 + b'"}',
        b'{"value": 1, "ifUnmodifiedSince": 7}',
        b'{"value": 1, "ifUnmodifiedSince": "yesterday"}',
        b'{"value": 1, "ifUnmodifiedSince": "2026-01-01"}',
        b'{"value": ' + b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1) + b"}",
        b'{"value": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    ],
)
async def test_bodies_that_are_none(shared_stack: Stack, plugin: str, body: bytes) -> None:
    status, found = await shared_stack.call("PUT", f"{plugin}/task/t/k", data=body)
    assert (status, list(found)) == (400, ["error"])
    assert (await shared_stack.call("GET", f"{plugin}/task/t/k"))[0] == 404


async def test_the_largest_body(shared_stack: Stack, plugin: str) -> None:
    frame = b'{"value":"%b"}'
    room = 256 * 1024 - len(frame % b"")
    assert (await shared_stack.call("PUT", f"{plugin}/task/t/k", data=frame % (b"x" * room)))[0] == 200
    assert (await shared_stack.call("PUT", f"{plugin}/task/t/k", data=frame % (b"x" * (room + 1))))[0] == 413

    async def in_pieces() -> AsyncIterator[bytes]:
        for _ in range(math.ceil(256 * 1024 / 1000) + 1):
            yield b"x" * 1000

    assert (await shared_stack.call("PUT", f"{plugin}/task/t/k", data=in_pieces()))[0] == 413


async def test_a_change_is_told_to_every_connection_of_the_user(shared_stack: Stack, plugin: str) -> None:
    clients = [await shared_stack.connect() for _ in range(2)]
    name = plugin.split("/")[3]

    def told(number: int) -> list[Json]:
        return [
            message["payload"]
            for message in clients[number].messages
            if message["action"] == ACTION and message["payload"]["pluginId"] == name
        ]

    _, first = await shared_stack.call("PUT", f"{plugin}/task/t/k", json={"value": 1, "writerId": "tab-1"})
    _, second = await shared_stack.call("PUT", f"{plugin}/task/t/k", json={"value": 2})
    await shared_stack.call("DELETE", f"{plugin}/task/t/k?writerId=tab-2")
    await shared_stack.call("DELETE", f"{plugin}/task/t/k")
    await shared_stack.call("PUT", f"{plugin}/task/t/last", json={"value": 3})
    place = {"pluginId": name, "scope": "task", "scopeId": "t"}
    for number in range(2):
        await clients[number].until(lambda number=number: len(told(number)) >= 4)  # type: ignore[misc] # its default is the number
        found = told(number)
        deleted = found[2].pop("updatedAt")
        assert deleted > second["updatedAt"]
        assert found[0] == {**place, "key": "k", "updatedAt": first["updatedAt"], "writerId": "tab-1"}
        assert found[1] == {**place, "key": "k", "updatedAt": second["updatedAt"]}
        assert found[2] == {**place, "key": "k", "writerId": "tab-2", "deleted": True}
        assert found[3]["key"] == "last"


async def test_a_plugin_that_is_removed_meanwhile_is_not_found(shared_stack: Stack, plugin: str) -> None:
    name = plugin.split("/")[3]
    lost = "DELETE FROM gateway.plugins WHERE id = $1"
    async with shared_stack.pool.acquire() as connection, connection.transaction():
        # The row is locked until the write has asked for it: it is there to the gateway and gone to the database.
        await connection.execute(lost, name)
        putting = asyncio.create_task(shared_stack.call("PUT", f"{plugin}/task/t/k", json={"value": 1}))
        blocked = """
            SELECT count(*) FROM pg_stat_activity
             WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%plugin_user_state%'
        """
        await eventually(lambda: shared_stack.pool.fetchval(blocked))
    assert (await putting)[0] == 404
