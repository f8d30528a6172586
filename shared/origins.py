"""From where requests may come (pure).

Any web page that a browser shows can send requests to a loopback port, and to whatever else the browser reaches, with
the cookies kept for it; and a name under an attacker's control can be made to resolve to a local address. Without
accounts the `Host` and `Origin` headers are all that tells the local user's own pages and tools from those; with them,
`Origin` is what no other page can forge.
"""

import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit


def refusal(host: str | None, origin: str | None, allowed_hosts: Collection[str] | None) -> str | None:
    """Why a request with these headers is refused, or `None` when it may pass.

    `host` must be loopback or one of `allowed_hosts` (names in lower case, without ports); where that is `None`, any
    host may be named. `origin` may be absent (not a browser); otherwise it must be http or https and name the same host
    as `host`, or both must be loopback. Ports are not compared.
    """
    reason = None if allowed_hosts is None else host_refusal(host, allowed_hosts)
    if reason is not None or origin is None:
        return reason
    name, source = _host_name(host), _origin_name(origin)
    if name is None or source is None or not (source == name or (is_loopback(source) and is_loopback(name))):
        return "requests from this origin are not allowed"
    return None


def host_refusal(host: str | None, allowed_hosts: Collection[str]) -> str | None:
    """Why a request with this `Host` is refused, or `None` when it may pass."""
    name = _host_name(host)
    if name is None or not (is_loopback(name) or name in allowed_hosts):
        return "this host name is not served; use a loopback address, or list the name in KANDEV_ALLOWED_HOSTS"
    return None


def host_names(listed: str) -> frozenset[str]:
    """The names of a comma-separated list, in lower case."""
    return frozenset(name.strip().lower() for name in listed.split(",") if name.strip())


def is_loopback(name: str) -> bool:
    """Whether a host name or address is this machine's own, reached from nowhere else."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def is_address(host: str | None) -> bool:
    """Whether a `Host` names an address, and not a name that somebody could have made to resolve to it."""
    try:
        ipaddress.ip_address(_host_name(host) or "")
    except ValueError:
        return False
    return True


def _host_name(host: str | None) -> str | None:
    return _name_of(f"http://{host}") if host else None


def _origin_name(origin: str) -> str | None:
    return _name_of(origin) if origin.startswith(("http://", "https://")) else None


def _name_of(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    if parts.path or parts.query or parts.fragment or parts.username is not None:
        return None
    return parts.hostname
