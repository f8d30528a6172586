import json
import os

import asyncpg
import pytest

from tests.integration.cli.command import ended, run, started

AWAY = {
    "KANDEV_DATABASE_URL": "postgresql://me:hunter2@127.0.0.1:1/db",
    "KANDEV_REDIS_URL": "redis://:hunter2@127.0.0.1:1",
}
COMMANDS = ("up", "import", "replay", "tail", "verify", "doctor", "settings", "migrate", "psql", "run")


async def test_help_names_every_command_and_shows_examples() -> None:
    shown = await run("--help")
    assert shown.code == 0
    assert all(f"\n  {command} " in shown.out for command in COMMANDS)
    assert "kandev-conversation replay" in shown.out


@pytest.mark.parametrize("command", COMMANDS)
async def test_every_command_explains_itself(command: str) -> None:
    shown = await run(command, "--help")
    assert shown.code == 0
    assert "Usage: kandev-conversation" in shown.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nonsense"], "There is no command 'nonsense'"),
        (["import"], "FILE..."),
        (["replay", "x", "--speed", "0"], "--speed"),
        (["run", "nothing"], "revision"),
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


async def test_a_database_that_cannot_be_reached_is_a_sentence() -> None:
    refused = await run("migrate", **AWAY)
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
    assert json.loads(second.out) == {"applied": [], "version": report["version"]}
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
