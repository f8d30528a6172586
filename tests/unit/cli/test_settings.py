import os

import pytest
from pydantic import SecretStr

from cli.configuration import load_settings
from cli.errors import CommandFailed
from cli.psql import without_password
from cli.settings import SettingRow, setting_rows, shown, unknown_variables


@pytest.mark.parametrize(
    ("secret", "expected"),
    [
        ("postgresql://me:secret@host:5432/db?password=secret", "postgresql://me:***@host:5432/db?***"),
        ("redis://:secret@[::1]:6379/0", "redis://:***@[::1]:6379/0"),
        ("redis://localhost/0", "redis://localhost/0"),
        ("secret", "***"),
        ("postgresql://me:secret@host:none/db", "***"),
    ],
)
def test_secrets_are_masked(secret: str, expected: str) -> None:
    assert shown(SecretStr(secret)) == expected


def test_truth_is_shown_as_it_is_written() -> None:
    assert [shown(value) for value in (True, False)] == ["true", "false"]


def test_a_variable_that_nothing_reads_is_named_with_the_nearest_one() -> None:
    environment = {"KANDEV_LOG_LEVLE": "x", "KANDEV_URL": "x", "KANDEV_TEST_DATABASE_URL": "x", "kandev_port": "1"}
    (unknown,) = unknown_variables(environment)
    assert (unknown.variable, unknown.nearest) == ("KANDEV_LOG_LEVLE", "KANDEV_LOG_LEVEL")


def test_every_setting_says_what_it_means() -> None:
    assert all(row.meaning and row.variables for row in setting_rows({}))


def test_the_variable_that_commands_read_is_listed_and_checked() -> None:
    def row(value: str) -> SettingRow:
        return next(row for row in setting_rows({"KANDEV_URL": value}) if row.variables == ("KANDEV_URL",))

    assert (row("http://me:hunter2@host:1").value, row("http://host").given) == ("http://me:***@host:1", True)
    assert (row("").given, row("").problem) == (False, "")
    assert row("hunter2:8080").problem
    assert row("ftp://hunter2").value == "***"


def test_a_variable_that_is_set_to_nothing_is_not_given() -> None:
    (port,) = (row for row in setting_rows({"KANDEV_PORT": ""}) if row.name == "port")
    assert not port.given


@pytest.mark.parametrize("variable", ["KANDEV_DATABASE_URL", "KANDEV_REDIS_URL", "KANDEV_REPLICA_URL"])
def test_an_address_of_another_kind_is_named(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "mysql://hunter2")
    with pytest.raises(CommandFailed, match=f"Settings cannot be used: {variable}: expected an address like") as raised:
        load_settings()
    assert "hunter2" not in str(raised.value)
    assert [row.variables[0] for row in setting_rows(os.environ) if row.problem] == [variable]


def test_a_value_that_cannot_be_used_is_named_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KANDEV_DATABASE_POOL", "hunter2")
    with pytest.raises(CommandFailed, match="KANDEV_DATABASE_POOL") as raised:
        load_settings()
    assert "hunter2" not in str(raised.value)


def test_the_password_does_not_reach_the_list_of_processes() -> None:
    assert without_password("postgresql://me:p%40ss@host:5432/db?sslmode=require") == (
        "postgresql://me@host:5432/db?sslmode=require",
        "p@ss",
    )
    assert without_password("postgresql://host/db") == ("postgresql://host/db", None)
