"""What a scope is told."""

import orjson

from tests.support.socket_client import SocketClient
from tests.support.stack import ADD, Stack

MANY = """
INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content)
SELECT 'many' || n, $1, 't', 'agent', 'x' FROM generate_series(1, $2::int) n
"""


def names(client: SocketClient, scope_id: str = "scope") -> list[tuple[str, str, str]]:
    """Kind, entity and id of every operation that a scope was told."""
    return [
        (each["kind"], each["entity"], each["id"]) for frame in client.told(scope_id) for each in frame["operations"]
    ]


async def test_a_commit_becomes_a_frame(stack: Stack) -> None:
    await stack.session("s")
    client = await stack.connect()
    reply = await client.subscribe("s")
    revision = await stack.revision("s")
    assert (reply["success"], reply["protocol_version"], reply["revision"]) == (True, 2, str(revision))
    await stack.add("s", "m", content="hello")
    await client.reached(revision + 1)
    [frame] = client.told()
    assert (frame["base_revision"], frame["revision"]) == (str(revision), str(revision + 1))
    assert (frame["epoch"], frame["session_id"]) == (reply["epoch"], "s")
    [operation] = frame["operations"]
    assert operation["kind"] == "upsert"
    assert operation["message"]["content"] == "hello"
    assert operation["message"]["prompt_index"] == 1


async def test_a_row_in_a_frame_is_the_row_of_a_page(stack: Stack) -> None:
    await stack.session("s")
    client = await stack.connect()
    await client.subscribe("s")
    content = '<kandev-system>note</kandev-system>\n ünïcödé \U0001f600 \\ " \u2028'
    await stack.pool.execute(
        "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content, metadata, turn_id, "
        "author_id, requests_input, type) VALUES ('m', 's', 't', 'user', $1, $2, 'x', 'me', true, 'todo')",
        content,
        '{"a":[1,2.5,null,{"b":"c"}],"big":123456789012345678901234567890}',
    )
    await stack.pool.execute(
        "INSERT INTO task_session_turns (id, task_session_id, task_id, route_generation, execution_profile_id, "
        "metadata) VALUES ('x', 's', 't', 3, 'p', '{\"k\":1}')"
    )
    await client.reached(await stack.revision("s"))
    [[message], [turn]] = [frame["operations"] for frame in client.told()]
    _, page = await stack.call("GET", "/api/v1/task-sessions/s/messages?limit=5")
    _, turns = await stack.call("GET", "/api/v1/task-sessions/s/turns")
    assert page["messages"] == [message["message"]]
    assert turns["turns"] == [turn["turn"]]
    assert message["message"]["raw_content"] == content


async def test_coverage_where_nothing_concerns_the_scope(stack: Stack) -> None:
    await stack.session("s")
    client = await stack.connect()
    await client.subscribe("s", authors=["user"])
    await stack.add("s", "m", author="agent")
    await client.reached(await stack.revision("s"))
    [frame] = client.told()
    assert frame["operations"] == []
    assert int(frame["revision"]) == int(frame["base_revision"]) + 1


async def test_a_rolled_back_change_is_not_told(stack: Stack) -> None:
    await stack.session("s")
    client = await stack.connect()
    await client.subscribe("s")
    async with stack.pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(ADD, "undone", "s", "t", "user", "")
        await transaction.rollback()
    await stack.add("s", "done")
    await client.reached(await stack.revision("s"))
    assert names(client) == [("upsert", "message", "done")]


async def test_rows_enter_and_leave_filters(stack: Stack) -> None:
    for session_id in ("s", "z"):
        await stack.session(session_id)
    client = await stack.connect()
    for scope_id, more in (
        ("all", {}),
        ("task", {"task_id": "t"}),
        ("user", {"authors": ["user"]}),
        ("both", {"task_id": "t", "authors": ["user"]}),
    ):
        assert (await client.subscribe("s", scope_id, **more))["success"]
    await client.subscribe("z", "other")
    for statement in (
        "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type) VALUES ('m', 's', 't', 'agent')",
        "UPDATE task_session_messages SET author_type = 'user' WHERE id = 'm'",
        "UPDATE task_session_messages SET task_id = 'u' WHERE id = 'm'",
        "UPDATE task_session_messages SET task_id = 't' WHERE id = 'm'",
        "UPDATE task_session_messages SET author_type = 'agent' WHERE id = 'm'",
        "UPDATE task_session_messages SET task_session_id = 'z' WHERE id = 'm'",
        "UPDATE task_session_messages SET task_session_id = 's', author_type = 'user' WHERE id = 'm'",
        "DELETE FROM task_session_messages WHERE id = 'm'",
    ):
        await stack.pool.execute(statement)
        for scope_id in ("all", "task", "user", "both"):
            await client.reached(await stack.revision("s"), scope_id)
    await client.reached(await stack.revision("z"), "other")
    kinds = {scope: [kind for kind, _, _ in names(client, scope)] for scope in ("all", "task", "user", "both", "other")}
    up, out = "upsert", "remove"
    assert kinds == {
        "all": [up, up, up, up, up, out, up, out],
        "task": [up, up, out, up, up, out, up, out],
        "user": [up, up, up, out, up, out],
        "both": [up, out, up, out, up, out],
        "other": [up, out],
    }


async def test_turns_of_another_task_are_left_out(stack: Stack) -> None:
    await stack.session("s")
    client = await stack.connect()
    await client.subscribe("s", task_id="t", authors=["user"])
    await stack.pool.execute(
        "INSERT INTO task_session_turns (id, task_session_id, task_id) VALUES ('a', 's', 't'), ('b', 's', 'u')"
    )
    await client.reached(await stack.revision("s"))
    assert names(client) == [("upsert", "turn", "a")]


async def test_an_incomplete_receipt_is_a_reset_and_frames_go_on(stack: Stack) -> None:
    await stack.session("s")
    client = await stack.connect()
    await client.subscribe("s")
    await stack.pool.execute(MANY, "s", 300)
    await client.until(lambda: client.resets() == 1)
    revision = await stack.revision("s")
    await stack.add("s", "m")
    await client.until(lambda: ("upsert", "message", "m") in names(client))
    [told] = [frame for frame in client.told() if frame["operations"]]
    assert told["base_revision"] == str(revision)
    assert client.resets() == 1


async def test_the_largest_number_of_operations_is_a_change(stack: Stack) -> None:
    await stack.session("s")
    client = await stack.connect()
    await client.subscribe("s")
    await stack.pool.execute(MANY, "s", 256)
    await client.reached(await stack.revision("s"))
    assert (client.resets(), len(names(client))) == (0, 256)


async def test_a_row_that_no_frame_can_carry_is_a_reset_and_frames_go_on(stack: Stack) -> None:
    await stack.session("s")
    client = await stack.connect()
    await client.subscribe("s")
    await stack.add("s", "large", content="x" * (2 << 20))
    await client.until(lambda: client.resets() == 1)
    await stack.add("s", "m")
    await client.until(lambda: ("upsert", "message", "m") in names(client))
    _, page = await stack.call("GET", "/api/v1/task-sessions/s/messages?limit=5")
    messages = page["messages"]
    assert isinstance(messages, list)
    assert len(messages[0]["content"]) == 2 << 20


async def test_a_large_unchanged_content_is_told_whole(stack: Stack) -> None:
    await stack.session("s")
    await stack.add("s", "m", content="y" * 100_000)
    client = await stack.connect()
    await client.subscribe("s")
    await stack.pool.execute("UPDATE task_session_messages SET type = 'todo' WHERE id = 'm'")
    await client.until(lambda: bool(client.told()))
    if client.resets() == 0:
        [operation] = client.told()[0]["operations"]
        assert operation["message"]["content"] == "y" * 100_000


async def test_truncated_tables(stack: Stack) -> None:
    await stack.session("s")
    await stack.add("s", "m")
    client = await stack.connect()
    await client.subscribe("s")
    await stack.pool.execute("TRUNCATE task_session_messages")
    await client.until(lambda: client.resets() == 1)
    _, page = await stack.call("GET", "/api/v1/task-sessions/s/messages?limit=5")
    assert page["messages"] == []
    await stack.add("s", "again")
    await client.until(lambda: ("upsert", "message", "again") in names(client))


async def test_checks_tell_the_sources_revision_and_nothing_else(stack: Stack) -> None:
    await stack.session("s")
    client = await stack.connect()
    await client.subscribe("s")
    await stack.add("s", "m")
    revision = str(await stack.revision("s"))
    await client.until(lambda: any(each.get("check") and each["revision"] == revision for each in client.frames()))
    for frame in client.frames():
        if "check" in frame:
            assert frame["base_revision"] == frame["revision"]
            assert frame["operations"] == []


async def test_frames_are_compact_objects_one_a_message(stack: Stack) -> None:
    await stack.session("s")
    async with stack.http.ws_connect(stack.url + "/ws") as socket:
        payload = {"session_id": "s", "scope_id": "scope", "consumer_kind": "core"}
        await socket.send_bytes(
            orjson.dumps({"type": "request", "action": "session.conversation.subscribe", "payload": payload})
        )
        texts = [await socket.receive_str()]
        await stack.add("s", "m", content="a b")
        texts.append(await socket.receive_str())
    for text in texts:
        assert orjson.dumps(orjson.loads(text)).decode() == text


async def test_a_burst_reaches_every_scope_in_order_and_without_a_gap(stack: Stack) -> None:
    """G5, on the wire: joined or not, each frame begins where the scope stands."""
    await stack.session("s")
    client = await stack.connect()
    old = await client.subscribe("s", "old")
    await client.until(lambda: bool(client.frames("old")))
    starts = {"old": old["revision"]}
    for number in range(150):
        await stack.add("s", f"m{number}", author="agent")
        if number % 30 == 0:
            starts[f"new{number}"] = (await client.subscribe("s", f"new{number}"))["revision"]
    for scope_id, start in starts.items():
        await client.reached(await stack.revision("s"), scope_id)
        at = start
        for frame in client.told(scope_id):
            assert frame["base_revision"] == at
            at = frame["revision"]
    assert len(names(client, "old")) == 150
