"""People with accounts, and what they prove it with."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import aiohttp
import asyncpg

from services.gateway.identity.accounts import Accounts
from services.gateway.identity.passwords import Passwords
from services.gateway.identity.tokens import AccessTokens
from tests.support.stack import Stack

PASSWORD = "correct horse battery"
SECOND = "gateway-2"

_numbers = itertools.count()


@dataclass(frozen=True)
class Person:
    """An account, and a token of it."""

    id: str
    username: str
    token: str
    token_id: str

    @property
    def bearer(self) -> Mapping[str, str]:
        """Headers that prove it."""
        return {"Authorization": f"Bearer {self.token}"}


class People:
    """Makes accounts as the command line does, in the database itself."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._accounts, self._tokens = Accounts(pool), AccessTokens(pool)

    async def add(self, *, administrator: bool = False) -> Person:
        """Someone new, with `PASSWORD`."""
        username = f"person{next(_numbers)}"
        hashed = await Passwords().hashed(PASSWORD)
        account = await self._accounts.add(username, hashed, administrator=administrator)
        token, text = await self._tokens.add(account.id, "test")
        return Person(account.id, username, text, token.id)


def cookie_name(stack: Stack, gateway: str = "gateway") -> str:
    """The name of a gateway's cookie: no test's gateway has the usual port."""
    return f"kandev_session_{urlsplit(stack.url_of(gateway)).port}"


async def sign_in(stack: Stack, username: str, password: str = PASSWORD, gateway: str = "gateway") -> str:
    """Signs in; the cookie's value."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http:
        body = {"username": username, "password": password}
        async with http.post(f"{stack.url_of(gateway)}/api/v1/auth/login", json=body) as answer:
            assert answer.status == 200, await answer.text()
            return answer.cookies[cookie_name(stack, gateway)].value


def with_cookie(stack: Stack, value: str, gateway: str = "gateway") -> Mapping[str, str]:
    """Headers that carry it."""
    return {"Cookie": f"{cookie_name(stack, gateway)}={value}"}
