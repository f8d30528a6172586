"""Where the embedded stack serves Host RPC."""

import socket

import pytest

from tests.integration.local.terminal import PATIENCE, Terminal


@pytest.fixture
def given(empty_database_url: str, redis_url: str) -> dict[str, str]:
    """Servers of the test run."""
    return {"DATABASE_URL": empty_database_url, "REDIS_URL": redis_url}


def test_each_gateway_has_a_port_for_it_and_the_first_ones_is_told(terminal: Terminal, given: dict[str, str]) -> None:
    process = terminal.up(given, gateways=2)
    stack = terminal.ready(process)
    ports = [found.ports["rpc"] for found in stack.processes if found.name == "gateway"]
    assert len({*ports}) == 2
    assert stack.ports["rpc"] == ports[0]
    assert f"Host RPC    127.0.0.1:{ports[0]}" in terminal.text()
    process.terminate()
    assert process.wait(PATIENCE) == 0


def test_it_is_not_served_where_it_is_switched_off(terminal: Terminal, given: dict[str, str]) -> None:
    process = terminal.up({**given, "KANDEV_RPC_PORT": "0"})
    stack = terminal.ready(process)
    assert all("rpc" not in found.ports for found in stack.processes)
    assert "Host RPC" not in terminal.text()
    process.terminate()
    assert process.wait(PATIENCE) == 0


def test_a_port_that_somebody_chose_is_theirs_or_an_error(terminal: Terminal, given: dict[str, str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        text = terminal.refused(terminal.up({**given, "KANDEV_RPC_PORT": port}))
    assert f"Port {port} is in use." in text
    assert "KANDEV_RPC_PORT" in text
