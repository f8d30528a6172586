import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from tests.integration.cli.command import ended, run, started
from tests.integration.cli.write_routes import WriteRoutes, serving
from tests.unit.cli.recording import SESSION, example, prompt, write

AWAY = {
    "KANDEV_DATABASE_URL": "postgresql://me:hunter2@127.0.0.1:1/db",
    "KANDEV_REDIS_URL": "redis://:hunter2@127.0.0.1:1",
}
COMMANDS = (
    "up",
    "import",
    "replay",
    "sessions",
    "tail",
    "verify",
    "doctor",
    "settings",
    "plugin",
    "migrate",
    "cutover",
    "detach",
    "user",
    "workspace",
    "psql",
    "run",
)


async def test_help_names_every_command_and_shows_examples() -> None:
    shown = await run("--help")
    assert shown.code == 0
    assert all(f"\n  {command} " in shown.out for command in COMMANDS)
    assert "kandev-conversation replay" in shown.out


@pytest.mark.parametrize("command", COMMANDS)
async def test_every_command_explains_itself(command: str) -> None:
    shown = await run(command, "-h")
    assert shown.code == 0
    assert "Usage: kandev-conversation" in shown.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nonsense"], "There is no command 'nonsense'"),
        (["import"], "FILE..."),
        (["replay", "x", "--speed", "0"], "--speed"),
        (["run", "nothing"], "revision"),
        (["replay", "x", "--speed", "inf"], "--speed"),
        (["replay", "x", "--max-gap", "nan"], "--max-gap"),
        (["verify", "s", "--seconds", "nan"], "--seconds"),
        (["import", "x", "--workspace", ""], "--workspace"),
        (["import", "x", "--task", " "], "--task"),
    ],
)
async def test_a_wrong_call_is_explained(arguments: list[str], says: str) -> None:
    refused = await run(*arguments)
    assert refused.code == 2
    assert says in refused.err
    assert "Traceback" not in refused.err


@pytest.mark.parametrize("command", [["migrate"], ["run", "gateway"], ["doctor"], ["psql"]])
async def test_settings_that_cannot_be_used_are_named_and_not_quoted(command: list[str]) -> None:
    refused = await run(*command, KANDEV_PORT="hunter2", KANDEV_LOG_LEVEL="hunter2")
    assert refused.code == 2
    assert "KANDEV_PORT" in refused.err
    assert "KANDEV_LOG_LEVEL" in refused.err
    assert "hunter2" not in refused.err
    assert "Traceback" not in refused.err


async def test_settings_lists_values_masked_and_warns() -> None:
    shown = await run("settings", "--json", **AWAY, KANDEV_PROT="1")
    assert shown.code == 0
    listed = {row["name"]: row for row in json.loads(shown.out)["settings"]}
    assert listed["database_url"]["value"] == "postgresql://me:***@127.0.0.1:1/db"
    assert "Did you mean KANDEV_PORT?" in shown.err
    assert "hunter2" not in shown.out
    wrong = await run("settings", KANDEV_PORT="hunter2")
    assert wrong.code == 2
    assert "KANDEV_PORT cannot be used" in wrong.err
    assert "hunter2" not in wrong.out + wrong.err


@pytest.mark.parametrize("command", ["migrate", "cutover", "detach"])
async def test_a_database_that_cannot_be_reached_is_a_sentence(command: str) -> None:
    refused = await run(command, **AWAY)
    assert refused.code == 2
    assert "127.0.0.1:1/db cannot be reached" in refused.err
    assert "hunter2" not in refused.err
    assert "Traceback" not in refused.err


async def test_migrate_brings_a_database_up_and_refuses_a_newer_one(empty_database_url: str) -> None:
    first = await run("migrate", "--json", KANDEV_DATABASE_URL=empty_database_url)
    second = await run("migrate", "--json", KANDEV_DATABASE_URL=empty_database_url)
    assert first.code == second.code == 0
    report = json.loads(first.out)
    assert report["applied"] == list(range(1, report["version"] + 1))
    assert json.loads(second.out) == {"applied": [], "version": report["version"], "replaced": []}
    connection = await asyncpg.connect(empty_database_url)
    await connection.execute("INSERT INTO conversation.migrations (version, name, checksum) VALUES (9999, 'x', 'x')")
    await connection.close()
    newer = await run("migrate", KANDEV_DATABASE_URL=empty_database_url)
    assert newer.code == 2
    assert "9999" in newer.err
    assert "Traceback" not in newer.err


async def test_psql_runs_on_the_database_and_passes_its_exit_code_on(database_url: str) -> None:
    shown = await run(
        "psql",
        "-At",
        "-c",
        "SELECT version FROM conversation.migrations WHERE version = 1",
        KANDEV_DATABASE_URL=database_url,
    )
    assert (shown.code, shown.out) == (0, "1\n")
    assert (await run("psql", "-c", "nonsense", KANDEV_DATABASE_URL=database_url)).code == 1


async def test_doctor_finds_what_is_away() -> None:
    found = await run("doctor", "--json", "--url", "http://127.0.0.1:1", **AWAY)
    assert found.code == 1
    report = json.loads(found.out)
    assert report["state"] == "fail"
    assert [(one["part"], one["aspect"], one["state"]) for one in report["findings"]] == [
        ("database", "reachable", "fail"),
        ("redis", "reachable", "fail"),
        ("gateway", "reachable", "fail"),
    ]
    assert "hunter2" not in found.out + found.err


async def test_doctor_reads_a_real_database_and_redis(database_url: str, redis_url: str) -> None:
    async def states() -> dict[tuple[str, str], str]:
        found = await run(
            "doctor",
            "--json",
            "--url",
            "http://127.0.0.1:1",
            KANDEV_DATABASE_URL=database_url,
            KANDEV_REDIS_URL=redis_url,
        )
        return {(one["part"], one["aspect"]): one["state"] for one in json.loads(found.out)["findings"]}

    sound = await states()
    connection = await asyncpg.connect(database_url)
    await connection.execute("ALTER TABLE task_session_messages DISABLE TRIGGER conversation_rows_updated")
    await connection.execute("ALTER TABLE task_session_turns REPLICA IDENTITY DEFAULT")
    await connection.execute("ALTER PUBLICATION conversation_receipts DROP TABLE conversation.epoch")
    await connection.close()
    broken = await states()

    for aspect in ("schema", "wal level", "role", "publication", "triggers", "replica identities"):
        assert sound["database", aspect] == "ok"
    assert sound["redis", "reachable"] == "ok"
    assert {aspect for aspect, state in broken.items() if state != sound[aspect]} == {
        ("database", "capture"),
        ("database", "publication"),
        ("database", "triggers"),
        ("database", "replica identities"),
    }


async def test_output_that_nobody_reads_ends_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = await started("settings", stdout=writing)
    os.close(writing)
    stopped = await ended(process)
    assert (stopped.code, stopped.err) == (1, "")


@pytest.mark.parametrize(
    "arguments",
    [
        *(["tail", wrong] for wrong in ("", "a\nb", "x" * 256)),
        *(["verify", wrong] for wrong in ("", "a\nb", "x" * 256)),
        ["verify", "s", ""],
        ["tail", "s", "--task", ""],
        ["sessions", "--task", ""],
    ],
)
async def test_an_id_that_cannot_exist_is_refused_before_anything_is_asked(arguments: list[str]) -> None:
    refused = await run(*arguments, KANDEV_URL="http://127.0.0.1:1")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("Error: No ")
    assert refused.err.count("\n") == 1


@pytest.mark.parametrize("variable", ["KANDEV_DATABASE_URL", "KANDEV_REDIS_URL"])
@pytest.mark.parametrize("arguments", [["run", "reader"], ["migrate"], ["doctor"], ["psql"], ["settings"], ["up"]])
async def test_an_address_of_another_kind_is_refused_by_every_command(variable: str, arguments: list[str]) -> None:
    refused = await run(*arguments, **{variable: "mysql://hunter2"})
    assert refused.code == 2
    assert variable in refused.err
    assert "hunter2" not in refused.err + refused.out
    assert "Traceback" not in refused.err


@pytest.mark.parametrize(
    ("service", "variable"),
    [
        ("gateway", "KANDEV_PORT"),
        ("gateway", "KANDEV_METRICS_PORT"),
        ("gateway", "KANDEV_RPC_PORT"),
        ("reader", "KANDEV_METRICS_PORT"),
        ("revision", "KANDEV_METRICS_PORT"),
    ],
)
async def test_a_service_names_the_port_that_is_taken_while_the_database_is_away(service: str, variable: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        ports = {"KANDEV_PORT": "0", "KANDEV_RPC_PORT": "0", "KANDEV_METRICS_PORT": "0", variable: port}
        refused = await run("run", service, **AWAY, **ports)
    assert refused.code == 2
    assert refused.err.startswith(f"Error: {variable}: port {port}")


@pytest.fixture
def full() -> Iterator[int]:
    """An output that has no room for anything."""
    with Path("/dev/full").open("wb") as output:
        yield output.fileno()


@pytest.mark.parametrize("arguments", [["settings"], ["--help"], ["doctor", "--json"]])
async def test_output_that_does_not_fit_is_a_sentence(full: int, arguments: list[str]) -> None:
    stopped = await ended(await started(*arguments, stdout=full, KANDEV_URL="http://127.0.0.1:1", **AWAY))
    assert (stopped.code, stopped.err) == (2, "Error: The output cannot be written: No space left on device.\n")


async def test_doctor_warns_of_variables_that_nothing_reads_and_breaks_no_word() -> None:
    found = await run("doctor", "--url", "http://127.0.0.1:1", **AWAY, KANDEV_PROT="1", COLUMNS="80")
    assert found.code == 1
    assert "Warning: KANDEV_PROT is no setting and has no effect. Did you mean KANDEV_PORT?" in found.err
    head, advice, *_ = found.out.splitlines()
    assert head == "fail  database  reachable             127.0.0.1:1/db: connection refused"
    assert advice.startswith("      Start PostgreSQL (`kandev-conversation up` brings one)")


@pytest.mark.parametrize("command", ["sessions", "tail", "verify", "import", "replay", "doctor"])
async def test_every_client_command_honours_and_names_its_variable(command: str, tmp_path: Path) -> None:
    assert "KANDEV_URL" in (await run(command, "--help")).out
    file = write(tmp_path / "t", example())
    operands: dict[str, list[str | Path]] = {"tail": ["s"], "verify": ["s"], "import": [file], "replay": [file]}
    refused = await run(command, *operands.get(command, []), KANDEV_URL="localhost:8080")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == "Error: KANDEV_URL is no URL: write http://localhost:8080.\n"


async def test_sessions_are_listed_newest_first(tmp_path: Path) -> None:
    file = write(tmp_path / "t", [prompt(0, "a"), prompt(1, "b", sessionId="other")])
    async with serving(WriteRoutes()) as routes:
        none = await run("sessions", "--url", routes.url)
        await run("import", file, "--url", routes.url)
        listed = await run("sessions", KANDEV_URL=routes.url)
        told = await run("sessions", "--json", "--url", routes.url)
        task = routes.sessions["other"].request["task_id"]
        one = await run("sessions", "--task", task, "--url", routes.url)
        other = await run("sessions", "--task", "another", "--url", routes.url)
    assert (none.code, none.out) == (0, "")
    assert "No session yet" in none.err
    assert (other.code, other.err) == (0, "No session of the task another, or they are not yours to read.\n")
    head, *lines = listed.out.splitlines()
    ids = [line.split()[0] for line in lines]
    assert head.split() == ["SESSION", "STATE", "REVISION", "STARTED", "TASK", "TITLE"]
    assert [line.split()[-1] for line in lines] == ["b", "a"]
    assert sorted(ids) == sorted([SESSION, "other"])
    rows = json.loads(told.out)
    assert [row["id"] for row in rows["sessions"]] == ids
    assert (rows["total"], rows["sessions"][0]["revision"].isdigit()) == (2, True)
    assert [row["task_title"] for row in rows["sessions"]] == ["b", "a"]
    assert [line.split()[0] for line in one.out.splitlines()[1:]] == ["other"]


async def test_sessions_of_a_gateway_that_is_not_there() -> None:
    refused = await run("sessions", "--url", "http://127.0.0.1:1")
    assert (refused.code, refused.out) == (2, "")
    assert "http://127.0.0.1:1 does not answer (connection refused)" in refused.err
