"""The embedded stack around stand-in services: real processes, real servers, real signals."""

import os
import signal
import socket
import stat
import subprocess
import sys
import urllib.request
from pathlib import Path

import psycopg
import pytest
import redis

from deploy.local.postgres import PostgresServer
from deploy.local.running import running_stack
from deploy.local.supervisor import ProcessState
from tests.integration.local.terminal import PATIENCE, Terminal, belonging, until
from tests.support.programs import alive

ALL = [("postgres", 0), ("redis", 0), ("revision", 0), ("reader", 0), ("gateway", 0)]


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def one(url: str, statement: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(statement).fetchone()
    return row[0] if row else None


@pytest.fixture
def given(empty_database_url: str, redis_url: str) -> dict[str, str]:
    """Servers of the test run, for what does not concern the embedded ones."""
    return {"DATABASE_URL": empty_database_url, "REDIS_URL": redis_url}


def test_it_serves_announces_itself_and_stops_without_a_trace(terminal: Terminal) -> None:
    process = terminal.up(gateways=2)
    stack = terminal.ready(process)
    assert stack.pid == process.pid
    assert [(found.name, found.instance) for found in stack.processes if found.name == "gateway"] == [
        ("gateway", 0),
        ("gateway", 1),
    ]
    for gateway in (found for found in stack.processes if found.name == "gateway"):
        assert answers(f"127.0.0.1:{gateway.ports['http']}")
    assert all(alive(found.pid) for found in stack.processes)
    assert one(stack.database_url, "SELECT to_regclass('conversation.epoch') IS NOT NULL")
    with redis.Redis.from_url(stack.redis_url) as client:
        assert client.ping()
    assert stat.S_IMODE((terminal.data / "run.json").stat().st_mode) == 0o600
    assert stack.database_url not in terminal.text()
    assert "revision.0  | revision starting, database True" in terminal.text()

    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 0
    assert running_stack(terminal.data) is None
    assert not (terminal.data / "run.json").exists()
    assert belonging(terminal.folder) == []


def test_what_a_statement_holds_never_reaches_the_log(terminal: Terminal) -> None:
    process = terminal.up()
    url = terminal.ready(process).database_url
    with pytest.raises(psycopg.errors.UniqueViolation):
        one(url, "INSERT INTO workspaces (id, name) VALUES ('private', 'x'), ('private', 'y') RETURNING 'private'")
    process.terminate()
    assert process.wait(PATIENCE) == 0
    assert "duplicate key" in terminal.text()
    assert "private" not in terminal.text()


def test_the_data_is_there_at_the_second_start(terminal: Terminal) -> None:
    first = terminal.up()
    with psycopg.connect(terminal.ready(first).database_url) as connection:
        connection.execute("INSERT INTO workspaces (id, name) VALUES ('w', 'kept')")
    first.terminate()
    assert first.wait(PATIENCE) == 0
    second = terminal.up()
    assert one(terminal.ready(second).database_url, "SELECT name FROM workspaces WHERE id = 'w'") == "kept"
    second.terminate()
    assert second.wait(PATIENCE) == 0


@pytest.mark.parametrize("name", [name for name, _ in ALL])
def test_whatever_dies_is_started_again_on_its_ports(terminal: Terminal, name: str) -> None:
    process = terminal.up()
    terminal.ready(process)
    before = terminal.process(name)
    os.kill(before.pid, signal.SIGKILL)

    def restarted() -> ProcessState | None:
        now = terminal.process(name)
        return now if now.restarts > 0 else None

    after = until(restarted, f"{name} to be started again")
    assert after.pid != before.pid
    assert after.ports == before.ports
    stack = running_stack(terminal.data)
    assert stack is not None
    if name == "postgres":
        until(lambda: True if PostgresServer(terminal.data / name, stack.ports[name]).answers() else None, name)
    elif name == "redis":
        until(lambda: True if pings(stack.redis_url) else None, name)
    else:
        port = after.ports.get("http", after.ports["metrics"])
        until(lambda: True if answers(f"127.0.0.1:{port}") else None, name)
    assert running_stack(terminal.data) == stack or terminal.process(name) == after
    process.terminate()
    assert process.wait(PATIENCE) == 0
    assert belonging(terminal.folder) == []


def pings(url: str) -> bool:
    try:
        with redis.Redis.from_url(url) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False


def test_nothing_outlives_a_killed_supervisor_and_the_next_start_takes_over(terminal: Terminal) -> None:
    process = terminal.up()
    stack = terminal.ready(process)
    process.kill()
    process.wait()
    until(lambda: True if belonging(terminal.folder) == [] else None, "everything to end")
    assert (terminal.data / "run.json").exists()
    assert running_stack(terminal.data) is None
    again = terminal.up()
    assert terminal.ready(again).pid != stack.pid
    again.terminate()
    assert again.wait(PATIENCE) == 0


def test_a_start_right_after_a_kill_waits_for_the_old_database(terminal: Terminal) -> None:
    first = terminal.up()
    terminal.ready(first)
    first.kill()
    first.wait()
    second = terminal.up()
    terminal.ready(second)
    second.terminate()
    assert second.wait(PATIENCE) == 0


def test_a_second_signal_does_not_wait_for_a_stubborn_service(terminal: Terminal, given: dict[str, str]) -> None:
    process = terminal.up(given | {"STANDIN_STUBBORN": "reader"})
    stack = terminal.ready(process)
    gateway = next(found.pid for found in stack.processes if found.name == "gateway")
    process.send_signal(signal.SIGINT)
    until(lambda: True if not alive(gateway) else None, "the gateway to stop")
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 0
    assert belonging(terminal.folder) == []


def test_a_second_stack_on_the_same_data_is_refused_by_name(terminal: Terminal, given: dict[str, str]) -> None:
    first = terminal.up(given)
    stack = terminal.ready(first)
    text = terminal.refused(terminal.up(given))
    assert f"process {stack.pid}" in text
    assert stack.url in text
    assert running_stack(terminal.data) == stack
    first.terminate()
    assert first.wait(PATIENCE) == 0


def test_a_chosen_port_in_use_is_refused_before_anything_starts(terminal: Terminal) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        text = terminal.refused(terminal.up({"PORT": str(port)}))
    assert f"Port {port} is in use" in text
    assert not (terminal.data / "postgres").exists()
    assert belonging(terminal.folder) == []


def test_the_chosen_port_is_served(terminal: Terminal, given: dict[str, str]) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = terminal.up(given | {"PORT": str(port)})
    assert terminal.ready(process).url == f"http://127.0.0.1:{port}"
    assert answers(f"127.0.0.1:{port}")
    process.terminate()
    assert process.wait(PATIENCE) == 0


@pytest.mark.parametrize("kind", ["STANDIN_REFUSES", "STANDIN_CRASHES"])
def test_a_service_that_cannot_start_ends_the_whole_start(terminal: Terminal, kind: str) -> None:
    text = terminal.refused(terminal.up({kind: "reader"}))
    assert "reader.0 could not start" in text
    assert belonging(terminal.folder) == []
    assert running_stack(terminal.data) is None


def test_a_degraded_service_serves_and_says_why(terminal: Terminal, given: dict[str, str]) -> None:
    process = terminal.up(given | {"STANDIN_DEGRADED": "revision"})
    terminal.ready(process)
    assert "revision.0 is degraded: set wal_level" in terminal.text()
    process.terminate()
    assert process.wait(PATIENCE) == 0


def test_given_addresses_are_used_and_left_running(terminal: Terminal, empty_database_url: str, redis_url: str) -> None:
    process = terminal.up({"DATABASE_URL": empty_database_url, "REDIS_URL": redis_url})
    stack = terminal.ready(process)
    assert (stack.database_url, stack.redis_url) == (empty_database_url, redis_url)
    assert {found.name for found in stack.processes} == {"revision", "reader", "gateway"}
    process.terminate()
    assert process.wait(PATIENCE) == 0
    assert one(empty_database_url, "SELECT to_regclass('conversation.epoch') IS NOT NULL")
    with redis.Redis.from_url(redis_url) as client:
        assert client.ping()


@pytest.mark.parametrize(
    ("setting", "address"),
    [
        ("DATABASE_URL", "postgresql://user:not-to-be-shown@127.0.0.1:1/kandev"),
        ("REDIS_URL", "redis://:not-to-be-shown@127.0.0.1:1/0"),
    ],
)
def test_a_server_that_cannot_be_reached_is_named_without_its_password(
    terminal: Terminal, setting: str, address: str
) -> None:
    text = terminal.refused(terminal.up({setting: address}))
    assert "connection refused" in text
    assert f"correct {setting}" in text
    assert "not-to-be-shown" not in text
    assert "Traceback" not in text
    assert belonging(terminal.folder) == []


@pytest.mark.parametrize("setting", ["DATABASE_URL", "KANDEV_DATABASE_URL", "REDIS_URL", "KANDEV_REDIS_URL"])
@pytest.mark.parametrize("address", ["not-to-be-shown", "postgresql://user:not-to-be-shown@127.0.0.1:port/kandev"])
def test_what_is_no_address_is_named_by_the_variable_that_gave_it(
    terminal: Terminal, setting: str, address: str
) -> None:
    text = terminal.refused(terminal.up({setting: address}))
    assert f" {setting}: expected an address like" in text
    assert "not-to-be-shown" not in text
    assert "Traceback" not in text


def test_a_port_that_is_set_to_nothing_is_unset(terminal: Terminal, given: dict[str, str]) -> None:
    process = terminal.up({**given, "PORT": "", "KANDEV_PORT": ""})
    assert terminal.ready(process).ports["http"]
    process.terminate()
    assert process.wait(PATIENCE) == 0


def test_a_database_newer_than_the_code_is_refused(terminal: Terminal, database_url: str, redis_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "INSERT INTO conversation.migrations (version, name, checksum) VALUES (9999, 'later', 'unknown')"
        )
    text = terminal.refused(terminal.up({"DATABASE_URL": database_url, "REDIS_URL": redis_url}))
    assert "9999" in text
    assert "Traceback" not in text


def test_a_value_of_the_wrong_kind_is_refused(terminal: Terminal) -> None:
    assert "PORT" in terminal.refused(terminal.up({"PORT": "many"}))


def test_a_data_folder_that_cannot_be_made_is_refused(terminal: Terminal) -> None:
    terminal.data.write_text("a file")
    assert "KANDEV_DATA_DIR" in terminal.refused(terminal.up())


@pytest.mark.parametrize("closed", [0o700, 0o711])
def test_a_closed_parent_is_served_and_left_as_it_was(terminal: Terminal, closed: int) -> None:
    terminal.folder.chmod(closed)
    before = permissions(terminal.folder)
    process = terminal.up()
    stack = terminal.ready(process)
    assert one(stack.database_url, "SELECT 1") == 1
    assert permissions(terminal.folder) == before
    if os.geteuid() == 0:
        postgres = next(found.pid for found in stack.processes if found.name == "postgres")
        assert Path(f"/proc/{postgres}").stat().st_uid != 0
    process.terminate()
    assert process.wait(PATIENCE) == 0
    assert permissions(terminal.folder) == before


def permissions(folder: Path) -> dict[Path, tuple[int, int]]:
    """Mode and owner of a folder, of the folders above it, and of where the code lives."""
    code = Path(__file__).parents[3]
    looked_at = [folder, *folder.parents, code, *code.parents]
    return {path: (path.stat().st_mode, path.stat().st_uid) for path in looked_at}


NOBODY = "people sign in, and there is no administrator yet"


@pytest.mark.parametrize("mode", ["disabled", "enabled"])
def test_the_welcome_says_where_nobody_could_administer(terminal: Terminal, given: dict[str, str], mode: str) -> None:
    """While there is none: not where everybody is the local user, and no more once there is one."""
    environment = {**given, "KANDEV_AUTH": mode}
    process = terminal.up(environment)
    stack = terminal.ready(process)
    process.terminate()
    assert process.wait(PATIENCE) == 0
    assert (NOBODY in terminal.text()) is (mode == "enabled")
    subprocess.run(
        [sys.executable, "-m", "cli.main", "user", "add", "ann", "--admin", "--password-stdin"],
        env={**os.environ, "KANDEV_DATABASE_URL": stack.database_url},
        input=b"correct horse\n",
        check=True,
    )
    process = terminal.up(environment)
    terminal.ready(process)
    process.terminate()
    assert process.wait(PATIENCE) == 0
    assert NOBODY not in terminal.text()
