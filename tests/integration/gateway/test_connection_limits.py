"""A gateway refuses connections before the upgrade, and takes others once there is a place."""

import asyncio

import pytest

from tests.integration.identity.people import People
from tests.support.stack import Stack
from tests.support.waiting import eventually

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
