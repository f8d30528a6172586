"""Packages by URL: only from the places that the administrator has listed."""

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Self
from urllib.parse import unquote, urljoin, urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from shared.contracts.errors import RequestFailed

FETCH_SECONDS = 60.0
"""Longest time for one package, redirects included."""

MAX_REDIRECTS = 5

_PART_BYTES = 256 << 10
_PORTS = {"http": 80, "https": 443}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_CONTROL = re.compile(r"[\x00-\x20\x7f\\]")

Write = Callable[[bytes], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Place:
    """A URL taken apart, as far as it says where something is."""

    scheme: str
    host: str
    port: int
    path: str

    @classmethod
    def of(cls, text: str) -> Self:
        """The place that a URL names. Raises ValueError, with a sentence, for one that is not usable here."""
        if _CONTROL.search(text):
            raise ValueError("a URL holds neither white space nor control characters nor backslashes")
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError:
            raise ValueError("this is not a URL") from None
        if parts.scheme not in _PORTS:
            raise ValueError("a package is fetched by http or https only")
        if not parts.hostname:
            raise ValueError("the URL names no host")
        if parts.username is not None or parts.password is not None:
            raise ValueError("the URL must hold no user name or password")
        if {".", ".."} & set(re.split(r"[/\\]", unquote(parts.path))):
            raise ValueError("the path of the URL must not hold '.' or '..'")
        return cls(parts.scheme, parts.hostname, port or _PORTS[parts.scheme], parts.path or "/")

    def within(self, prefix: "Place") -> bool:
        """Whether this place is the prefix or lies below it: `/a` covers `/a/b`, not `/ab`."""
        same = (self.scheme, self.host, self.port) == (prefix.scheme, prefix.host, prefix.port)
        return same and (self.path == prefix.path or self.path.startswith(prefix.path.rstrip("/") + "/"))


class Sources:
    """The places that packages may be fetched from: the setting `KANDEV_PLUGIN_SOURCES`, URL prefixes with commas."""

    def __init__(self, setting: str) -> None:
        self._prefixes = tuple(_prefix(text.strip()) for text in setting.split(",") if text.strip())

    def check(self, url: str) -> None:
        """Raises RequestFailed where this URL may not be fetched."""
        try:
            place = Place.of(url)
        except ValueError as error:
            raise RequestFailed("invalid_query", str(error)) from None
        if not self._prefixes:
            raise RequestFailed(
                "invalid_query",
                "packages are not fetched by URL here: upload the file, or list URL prefixes in KANDEV_PLUGIN_SOURCES",
            )
        if not any(place.within(prefix) for prefix in self._prefixes):
            raise RequestFailed("invalid_query", "the URL is not below any of the prefixes in KANDEV_PLUGIN_SOURCES")

    async def fetch(self, url: str, write: Write) -> None:
        """Hands the package's bytes to `write`. Raises RequestFailed for everything that goes wrong."""
        try:
            async with (
                asyncio.timeout(FETCH_SECONDS),
                aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(resolver=PublicResolver(aiohttp.ThreadedResolver())),
                    auto_decompress=False,
                    cookie_jar=aiohttp.DummyCookieJar(),
                    timeout=aiohttp.ClientTimeout(total=None),
                ) as http,
            ):
                await self._follow(http, url, write)
        except TimeoutError:
            raise RequestFailed("invalid_query", f"the package did not come within {FETCH_SECONDS:.0f} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise RequestFailed("invalid_query", f"the package could not be fetched ({type(error).__name__})") from None

    async def _follow(self, http: aiohttp.ClientSession, url: str, write: Write) -> None:
        for _ in range(MAX_REDIRECTS + 1):
            self.check(url)
            async with http.get(url, allow_redirects=False, headers={"Accept-Encoding": "identity"}) as answer:
                if answer.status not in _REDIRECTS:
                    await _receive(answer, write)
                    return
                url = urljoin(url, answer.headers.get("Location", ""))
        raise RequestFailed("invalid_query", f"the URL leads through more than {MAX_REDIRECTS} redirects")


class PublicResolver(AbstractResolver):
    """Finds public addresses only, whatever a name is made to point at. An address that the URL itself spells out needs
    no resolver, and was listed by the administrator as it stands; so was `localhost`.
    """

    def __init__(self, resolver: AbstractResolver) -> None:
        self._resolver = resolver

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Addresses of the host. Raises OSError when none may be used."""
        found = await self._resolver.resolve(host, port, family)
        usable = [each for each in found if host == "localhost" or ipaddress.ip_address(each["host"]).is_global]
        if not usable:
            raise OSError(f"{len(found)} addresses, none of them public")
        return usable

    async def close(self) -> None:
        """Closes the resolver behind this one."""
        await self._resolver.close()


async def _receive(answer: aiohttp.ClientResponse, write: Write) -> None:
    if answer.status != 200:
        raise RequestFailed("invalid_query", f"the package could not be fetched: the URL answers {answer.status}")
    async for part in answer.content.iter_chunked(_PART_BYTES):
        await write(part)


def _prefix(text: str) -> Place:
    try:
        return Place.of(text)
    except ValueError as error:
        raise ValueError(f"KANDEV_PLUGIN_SOURCES: {error}") from None
