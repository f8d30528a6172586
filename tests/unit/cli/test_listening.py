"""Which variable is named when a service cannot listen where it is told to."""

import errno
import socket
from collections.abc import Iterator

import pytest

from cli.errors import CommandFailed
from cli.listening import Place, check_places, complaint, places_of
from shared.settings import Settings


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.mark.parametrize(
    ("service", "setting", "variable"),
    [
        ("gateway", "port", "KANDEV_PORT"),
        ("gateway", "metrics_port", "KANDEV_METRICS_PORT"),
        ("gateway", "rpc_port", "KANDEV_RPC_PORT"),
        ("reader", "metrics_port", "KANDEV_METRICS_PORT"),
        ("revision", "metrics_port", "KANDEV_METRICS_PORT"),
    ],
)
def test_a_port_in_use(taken: int, service: str, setting: str, variable: str) -> None:
    settings = Settings(port=0, metrics_port=0, rpc_port=0).model_copy(update={setting: taken})
    with pytest.raises(CommandFailed, match=f"^{variable}: port {taken} on 127.0.0.1 is in use"):
        check_places(places_of(service, settings))


@pytest.mark.parametrize(
    ("host", "says"),
    [("nosuchhost.invalid", "no address|not a known host"), ("203.0.113.1", "no address"), ("a" * 70, "known host")],
)
def test_a_host_that_is_not_of_this_machine(host: str, says: str) -> None:
    with pytest.raises(CommandFailed, match=f"^KANDEV_HOST: .*({says})"):
        check_places(places_of("gateway", Settings(auth="enabled", host=host, port=0, metrics_port=0, rpc_port=0)))


def test_one_port_for_two_servers() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for taken in ({"metrics_port": port, "rpc_port": 0}, {"metrics_port": 0, "rpc_port": port}):
        with pytest.raises(CommandFailed, match="both"):
            check_places(places_of("gateway", Settings(port=port, **taken)))


def test_free_ports_of_any_host_are_fine() -> None:
    for host in ("127.0.0.1", "0.0.0.0", "localhost"):
        check_places(places_of("gateway", Settings(auth="enabled", host=host, port=0, metrics_port=0, rpc_port=0)))


def test_a_port_that_is_not_permitted() -> None:
    place = Place("127.0.0.1", 80, "KANDEV_HOST", "KANDEV_PORT")
    assert "KANDEV_PORT: this user may not listen on port 80" in complaint(place, PermissionError(errno.EACCES, "no"))
