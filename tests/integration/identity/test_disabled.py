"""Authentication disabled: one local user, and no accounts to use."""

from collections.abc import AsyncIterator

import aiohttp
import pytest

from tests.support.stack import Stack
from tests.support.waiting import eventually

OFF = "authentication is disabled here, so there are no accounts to use: set KANDEV_AUTH=enabled"


@pytest.fixture
async def unguarded(database_url: str, redis_url: str) -> AsyncIterator[Stack]:
    """A gateway alone; nothing here is read or written by the others."""
    async with Stack(database_url, redis_url) as stack:
        await stack.start("gateway")

        async def listens() -> bool:
            try:
                return (await stack.call("GET", "/health"))[0] == 200
            except aiohttp.ClientConnectionError:
                return False

        await eventually(listens)
        yield stack


async def test_everybody_is_the_local_user_and_there_are_no_accounts(unguarded: Stack) -> None:
    local = {"id": "default-user", "username": "local", "display_name": "Local user", "administrator": True}
    headers = {"Authorization": "Bearer nonsense", "Cookie": "kandev_session=nonsense"}
    for given in ({}, headers):
        assert await unguarded.call("GET", "/api/v1/auth/me", headers=given) == (
            200,
            {"mode": "disabled", "user": local},
        )
    for method, path in (
        ("POST", "/api/v1/auth/login"),
        ("POST", "/api/v1/auth/logout"),
        ("PUT", "/api/v1/auth/password"),
        ("GET", "/api/v1/auth/tokens"),
        ("POST", "/api/v1/auth/tokens"),
        ("DELETE", "/api/v1/auth/tokens/0123abcd"),
        ("GET", "/api/v1/users"),
        ("POST", "/api/v1/users"),
        ("PATCH", "/api/v1/users/x"),
    ):
        assert await unguarded.call(method, path) == (409, {"error": OFF}), path
    assert (await unguarded.call("GET", "/api/v1/auth/me", headers={"Host": "evil.example.com"}))[0] == 403
