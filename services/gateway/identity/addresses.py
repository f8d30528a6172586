"""From which address a request counts as sent (pure)."""

import ipaddress
from collections.abc import Iterable

MOST_CHARACTERS = 100
"""Of what names no address: what a proxy writes is kept small, too."""

_NETWORK_BITS = 64
"""What one subscriber of IPv6 has to itself: any number of addresses below it are one sender."""


def forwarded_for(values: Iterable[str]) -> str:
    """Whom the nearest proxy names: the last entry of the last header line. Those before it anyone can write."""
    return ",".join(values).rpartition(",")[2].strip()


def sender(address: str) -> str:
    """Who counts as one sender: an IPv4 address, however written, or the /64 network of an IPv6 one."""
    try:
        found = ipaddress.ip_address(_without_port(address))
    except ValueError:
        return address[:MOST_CHARACTERS]
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((int(found), _NETWORK_BITS), strict=False))


def _without_port(address: str) -> str:
    if address.startswith("["):
        return address[1:].partition("]")[0]
    return address.partition(":")[0] if address.count(":") == 1 else address
