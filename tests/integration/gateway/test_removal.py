"""Sessions that are deleted, and made again (G3)."""

import asyncio

from tests.support.stack import ADD, Stack


async def test_a_deleted_session_ends_every_scope_and_is_announced_once(stack: Stack) -> None:
    await stack.session("s")
    await stack.session("z")
    clients = [await stack.connect(), await stack.connect()]
    for client in clients:
        for number in range(5):
            await client.subscribe("s", f"scope{number}", authors=["user"] if number % 2 else [])
        await client.subscribe("z", "other")
    await stack.pool.execute("DELETE FROM task_sessions WHERE id = 's'")
    for client in clients:
        await client.until(lambda client=client: client.removals("s") == 1)  # type: ignore[misc] # a bound default
        assert [client.terminals(f"scope{number}") for number in range(5)] == [1] * 5
        assert client.terminals("other") == 0
        assert client.removals("z") == 0
        assert (await client.unsubscribe("scope1"))["success"] is False
        assert (await client.subscribe("s"))["error"]["code"] == "not_found"
    await stack.add("z", "m")
    for client in clients:
        await client.reached(await stack.revision("z"), "other")
        assert client.removals("s") == 1


async def test_a_deleted_task_ends_the_scopes_of_its_sessions(stack: Stack) -> None:
    for session_id in ("one", "two"):
        await stack.session(session_id, task_id="u")
    client = await stack.connect()
    for session_id in ("one", "two"):
        await client.subscribe(session_id, session_id)
    status, _ = await stack.call("DELETE", "/api/v1/tasks/u")
    assert status == 200
    for session_id in ("one", "two"):
        await client.until(lambda name=session_id: client.removals(name) == 1)  # type: ignore[misc] # a bound default
        assert client.terminals(session_id) == 1


async def test_a_session_deleted_over_http(stack: Stack) -> None:
    await stack.session("s")
    client = await stack.connect()
    await client.subscribe("s")
    status, _ = await stack.call("DELETE", "/api/v1/task-sessions/s")
    assert status == 200
    await client.until(lambda: client.removals("s") == 1)
    assert client.terminals() == 1


async def test_a_session_deleted_without_a_tracker(stack: Stack) -> None:
    """No receipt tells of it; the next check does."""
    await stack.session("s")
    client = await stack.connect()
    await client.subscribe("s")
    await stack.stop("revision")
    await stack.pool.execute("DELETE FROM task_sessions WHERE id = 's'")
    await client.until(lambda: client.removals("s") == 1)
    assert client.terminals() == 1


async def test_deleted_and_made_again_in_one_transaction(stack: Stack) -> None:
    await stack.session("s")
    await stack.add("s", "old")
    client = await stack.connect()
    await client.subscribe("s")
    async with stack.pool.acquire() as connection, connection.transaction():
        await connection.execute("DELETE FROM task_sessions WHERE id = 's'")
        await connection.execute("INSERT INTO task_sessions (id, task_id) VALUES ('s', 't')")
        await connection.execute(ADD, "new", "s", "t", "user", "")
    await client.until(lambda: client.resets() >= 1)
    await stack.add("s", "newer")
    await client.reached(await stack.revision("s"))
    assert client.terminals() == 0
    assert client.removals("s") == 0
    last = client.told()[-1]
    assert [each["id"] for each in last["operations"]] == ["newer"]


async def test_a_scope_on_the_session_made_again_outlives_the_removal_of_the_first(stack: Stack) -> None:
    """Scopes open while the session is deleted and made again: a removal older than a scope never ends it."""
    client = await stack.connect()
    await stack.session("s")
    for round_ in range(10):
        opened = f"scope{round_}"
        await stack.pool.execute("DELETE FROM task_sessions WHERE id = 's'")
        await stack.session("s")
        assert (await client.subscribe("s", opened))["success"]
        await stack.add("s", f"m{round_}")
        await client.reached(await stack.revision("s"), opened)
        assert client.terminals(opened) == 0


async def test_subscribing_while_the_session_goes(stack: Stack) -> None:
    """Whatever the order: a scope that was opened is ended, one that was not is refused."""
    for round_ in range(10):
        await stack.session(f"s{round_}")
    client = await stack.connect()

    async def subscribe(round_: int) -> bool:
        reply = await client.subscribe(f"s{round_}", f"scope{round_}")
        assert reply["success"] or reply["error"]["code"] == "not_found", reply
        return bool(reply["success"])

    async def delete(round_: int) -> None:
        await stack.pool.execute("DELETE FROM task_sessions WHERE id = $1", f"s{round_}")

    for round_ in range(10):
        opened, _ = await asyncio.gather(subscribe(round_), delete(round_))
        if opened:
            await client.until(lambda number=round_: client.terminals(f"scope{number}") == 1)  # type: ignore[misc] # bound
            await client.until(lambda number=round_: client.removals(f"s{number}") == 1)  # type: ignore[misc] # bound
