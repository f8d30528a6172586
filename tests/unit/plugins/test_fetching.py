"""Where packages may be fetched from."""

import socket

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from services.gateway.plugins.fetching import Place, PublicResolver, Sources
from shared.contracts.errors import RequestFailed


@pytest.mark.parametrize(
    ("url", "prefix", "within"),
    [
        ("https://a.example/p/x.tar.gz", "https://a.example/p", True),
        ("https://a.example/p/x.tar.gz", "https://a.example/p/", True),
        ("https://a.example/p", "https://a.example/p", True),
        ("https://a.example/x", "https://a.example", True),
        ("https://A.example:443/x?y=/../#z", "https://a.example/", True),
        ("https://a.example/px", "https://a.example/p", False),
        ("https://a.example/", "https://a.example/p", False),
        ("http://a.example/p", "https://a.example/p", False),
        ("https://a.example:444/p", "https://a.example/p", False),
        ("https://a.example.evil/p", "https://a.example/p", False),
        ("https://b.a.example/p", "https://a.example/p", False),
        ("https://a.example/P", "https://a.example/p", False),
        ("https://a.example/p%2fx", "https://a.example/p", False),
    ],
)
def test_what_a_prefix_covers(url: str, prefix: str, within: bool) -> None:
    assert Place.of(url).within(Place.of(prefix)) is within


@pytest.mark.parametrize(
    "setting", ["a.example", "ftp://a.example", "https://user@a.example/", "https://a.example/../b", "https://"]
)
def test_a_setting_that_names_no_place_is_told(setting: str) -> None:
    with pytest.raises(ValueError, match="KANDEV_PLUGIN_SOURCES"):
        Sources(f"https://good.example, {setting}")


def test_an_empty_setting_names_itself() -> None:
    with pytest.raises(RequestFailed, match="KANDEV_PLUGIN_SOURCES"):
        Sources(" , ").check("https://a.example/")


class Names(AbstractResolver):
    """Knows what the test says."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=0)
            for address in self.addresses
        ]

    async def close(self) -> None:
        """Nothing is open."""


PRIVATE = (
    "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "::1", "fe80::1",
    "fd00::1", "::ffff:127.0.0.1", "::",
)  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
async def test_a_name_that_points_inside_is_not_followed(address: str) -> None:
    with pytest.raises(OSError, match="none of them public"):
        await PublicResolver(Names(address)).resolve("plugins.example", 80)
    found = await PublicResolver(Names(address, "93.184.215.14")).resolve("plugins.example", 80)
    assert [each["host"] for each in found] == ["93.184.215.14"]


async def test_localhost_stands_in_the_list_or_is_not_asked_for() -> None:
    found = await PublicResolver(Names("127.0.0.1")).resolve("localhost", 80)
    assert [each["host"] for each in found] == ["127.0.0.1"]
