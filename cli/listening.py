"""Whether a service can listen where its settings say, asked before it starts: it may open its port much later."""

import errno
import socket
from dataclasses import dataclass
from itertools import combinations

from cli.errors import CommandFailed
from shared.settings import Settings


@dataclass(frozen=True, slots=True)
class Place:
    """An address to listen on, and the variables that gave it."""

    host: str
    port: int
    host_variable: str
    port_variable: str


def places_of(service: str, settings: Settings) -> tuple[Place, ...]:
    """Where a service listens."""
    metrics = Place(settings.metrics_host, settings.metrics_port, "KANDEV_METRICS_HOST", "KANDEV_METRICS_PORT")
    if service != "gateway":
        return (metrics,)
    http = Place(settings.host, settings.port, "KANDEV_HOST", "KANDEV_PORT")
    if settings.rpc_port == 0:
        return http, metrics
    return http, metrics, Place(settings.host, settings.rpc_port, "KANDEV_HOST", "KANDEV_RPC_PORT")


def check_places(places: tuple[Place, ...]) -> None:
    """Raises `CommandFailed` that names the variable to change."""
    for place in places:
        try:
            _try(place)
        except (OSError, UnicodeError) as error:
            raise CommandFailed(complaint(place, error)) from None
    for first, second in combinations(places, 2):
        if first.port and (first.host, first.port) == (second.host, second.port):
            raise CommandFailed(f"{first.port_variable} and {second.port_variable} are both {first.port}: choose two.")


def complaint(place: Place, error: OSError | UnicodeError) -> str:
    """What is wrong with the place, by the variable that has to change."""
    match error:
        case OSError(errno=errno.EADDRINUSE):
            found = f"{place.port_variable}: port {place.port} on {place.host} is in use. Stop what listens there"
            return f"{found}, or choose another port."
        case OSError(errno=errno.EACCES):
            found = f"{place.port_variable}: this user may not listen on port {place.port}"
            return f"{found}. Choose one from 1024 up, or give the right to it."
        case OSError(errno=errno.EADDRNOTAVAIL):
            return f"{place.host_variable}: {place.host} is no address of this machine."
        case socket.gaierror() | UnicodeError():
            return f"{place.host_variable}: {place.host} is not a known host. Name an address of this machine."
        case _:
            return f"{place.host_variable}: nothing can listen on {place.host} ({error.strerror})."


def _try(place: Place) -> None:
    found = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    for family, kind, protocol, _, address in found:
        with socket.socket(family, kind, protocol) as probe:
            # As servers do: connections of an earlier one that only linger are no hindrance.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind(address)
