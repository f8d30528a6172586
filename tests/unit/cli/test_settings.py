import pytest
from pydantic import SecretStr

from cli.configuration import load_settings
from cli.errors import CommandFailed
from cli.psql import without_password
from cli.settings import setting_rows, shown, unknown_variables


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


def test_a_variable_that_nothing_reads_is_named_with_the_nearest_one() -> None:
    environment = {"KANDEV_LOG_LEVLE": "x", "KANDEV_URL": "x", "KANDEV_TEST_DATABASE_URL": "x", "kandev_port": "1"}
    (unknown,) = unknown_variables(environment)
    assert (unknown.variable, unknown.nearest) == ("KANDEV_LOG_LEVLE", "KANDEV_LOG_LEVEL")


def test_every_setting_says_what_it_means() -> None:
    assert all(row.meaning and row.variables for row in setting_rows({}))


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
