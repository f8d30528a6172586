"""Which ports a stack is given."""

import errno
import socket
from collections.abc import Iterator

import pytest

from deploy.local.errors import StackError
from deploy.local.ports import Ports, is_free, refusal


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which something listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_port_in_use_is_refused_when_chosen_and_replaced_when_preferred(taken: int, ports: Ports) -> None:
    with pytest.raises(StackError, match=f"Port {taken} is in use"):
        ports.exactly(taken, "PORT")
    other = ports.preferred(taken)
    assert other != taken
    assert is_free(other)


def test_two_stacks_that_choose_before_they_listen_get_different_ports(ports: Ports) -> None:
    with Ports() as other:
        port = ports.private()
        assert is_free(port)
        assert other.preferred(port) != port
        with pytest.raises(StackError):
            other.exactly(port, "PORT")


def test_a_closed_choice_is_free_again() -> None:
    with Ports() as first:
        port = first.private()
    with Ports() as second:
        assert second.exactly(port, "PORT") == port


def test_ports_upward_are_the_lowest_free_ones_and_never_twice(taken: int, ports: Ports) -> None:
    first = ports.upward(taken)
    second = ports.upward(taken)
    assert taken < first < second


def test_a_port_whose_connections_only_linger_is_free() -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            accepted, _ = listener.accept()
            accepted.close()
    assert is_free(port)


def test_a_port_that_this_user_may_not_use_is_not_said_to_be_in_use() -> None:
    assert refusal(80, "PORT", errno.EACCES).startswith("This user may not listen on port 80")
    assert "in use" not in refusal(80, "PORT", errno.EACCES)


def test_an_address_of_another_machine_is_named() -> None:
    with pytest.raises(StackError, match="KANDEV_HOST"):
        is_free(0, "203.0.113.1")
