"""A gateway refuses connections before the upgrade, and takes others once there is a place; and so with scopes."""

import asyncio
import socket
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from tests.integration.identity.people import People
from tests.support.stack import Stack
from tests.support.waiting import PATIENCE, eventually

COMING_TOGETHER = 300

UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


@pytest.mark.parametrize(("setting", "status"), [("connections", 503), ("connections_per_address", 429)])
async def test_a_gateway_that_has_enough(stack: Stack, setting: str, status: int) -> None:
    await stack.start("gateway", name="small", process=False, **{setting: 2})
    await stack.ready("small")
    first, _ = await stack.connect("small"), await stack.connect("small")
    async with stack.http.get(f"{stack.url_of('small')}/ws", headers=UPGRADE) as refused:
        assert (refused.status, refused.headers["Retry-After"]) == (status, "1")
        assert (await refused.json())["error"].endswith(("takes no more", "connections to a gateway"))
    await first.close()

    async def taken() -> int:
        async with stack.http.get(f"{stack.url_of('small')}/ws", headers=UPGRADE) as answer:
            return answer.status

    assert await eventually(taken, lambda found: found != status) == 101


async def test_clients_that_come_in_one_moment_all_find_a_place(stack: Stack) -> None:
    address = urlsplit(stack.url)
    assert address.hostname is not None
    assert address.port is not None
    with ExitStack() as ending:
        # The gateway runs in this thread, which gives it no time to take anybody before all are connected.
        for _ in range(COMING_TOGETHER):
            ending.enter_context(socket.create_connection((address.hostname, address.port), PATIENCE))
        status, _ = await stack.call("GET", "/health")
    assert status == 200


async def test_a_user_has_so_many_and_others_are_not_concerned(accounts_stack: Stack, people: People) -> None:
    one, other = await people.add(), await people.add()
    await accounts_stack.start("gateway", name="narrow", connections_per_user=2)
    await accounts_stack.ready("narrow")
    clients = [await accounts_stack.connect("narrow", headers=one.bearer) for _ in range(2)]
    status, body = await accounts_stack.call("GET", "/ws", gateway="narrow", headers={**UPGRADE, **one.bearer})
    assert (status, body) == (429, {"error": "a user may have 2 connections to a gateway"})
    clients.append(await accounts_stack.connect("narrow", headers=other.bearer))
    await asyncio.gather(*(client.close() for client in clients))
    await accounts_stack.stop("narrow")


async def test_a_user_has_so_many_scopes_on_all_connections(accounts_stack: Stack, people: People) -> None:
    one, other = await people.add(), await people.add()
    await accounts_stack.session("counted")
    await accounts_stack.start("gateway", name="sparing", scopes_per_user=3)
    await accounts_stack.ready("sparing")
    first, second, third = [
        await accounts_stack.connect("sparing", headers=person.bearer) for person in (one, one, other)
    ]
    for client, scope in ((first, "a"), (first, "b"), (second, "a")):
        assert (await client.subscribe("counted", scope))["success"]
    for client in (first, second):
        refused = await client.subscribe("counted", "c")
        assert (refused["error"]["code"], refused["error"]["retryable"]) == ("limit_exceeded", False)
    pushed = await second.request("session.subscribe", {"session_id": "counted"})
    assert (pushed["type"], pushed["payload"]["code"]) == ("error", "BAD_REQUEST")
    assert (await third.subscribe("counted", "a"))["success"], "others are not concerned"
    assert (await first.subscribe("counted", "a"))["success"], "replacing needs no further place"
    await first.close()

    async def opened() -> bool:
        return bool((await second.subscribe("counted", "c"))["success"])

    await eventually(opened)
    for client in (second, third):
        await client.close()
    await accounts_stack.stop("sparing")


async def test_without_accounts_an_address_has_so_many_scopes(shared_stack: Stack) -> None:
    await shared_stack.session("counted")
    await shared_stack.start("gateway", name="sparing", scopes_per_user=1)
    await shared_stack.ready("sparing")
    first, second = [await shared_stack.connect("sparing") for _ in range(2)]
    assert (await first.subscribe("counted"))["success"]
    assert (await second.subscribe("counted"))["error"]["code"] == "limit_exceeded"
    await first.unsubscribe()
    assert (await second.subscribe("counted"))["success"]
    for client in (first, second):
        await client.close()
    await shared_stack.stop("sparing")
