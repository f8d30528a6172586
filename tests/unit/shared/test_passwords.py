"""Secrets apart from addresses, in files, and left as examples have them."""

from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from cli.configuration import complaints_of, load_settings
from cli.errors import CommandFailed
from cli.settings import setting_rows, unknown_variables
from shared.passwords import is_placeholder, with_password
from shared.settings import Settings


@pytest.fixture(autouse=True)
def _no_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATABASE_URL", "REDIS_URL", "KANDEV_DATABASE_URL", "KANDEV_REDIS_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("postgresql://me@host:1/db?sslmode=require", "postgresql://me:p%40%3A%2F%20%C3%BC@host:1/db?sslmode=require"),
        ("postgresql://me:own@host/db", "postgresql://me:own@host/db"),
        ("postgresql://host/db", "postgresql://:p%40%3A%2F%20%C3%BC@host/db"),
        ("redis://host:6379/0", "redis://:p%40%3A%2F%20%C3%BC@host:6379/0"),
        ("unix:///run/redis.sock?db=1", "unix://:p%40%3A%2F%20%C3%BC@/run/redis.sock?db=1"),
    ],
)
def test_an_address_without_a_password_gets_it(address: str, expected: str) -> None:
    assert with_password(SecretStr(address), SecretStr("p@:/ ü")).get_secret_value() == expected


@pytest.mark.parametrize("password", ["change-me", "CHANGE_ME", "changeme", "pass%77ord", "placeholder"])
def test_a_placeholder(password: str) -> None:
    assert is_placeholder(SecretStr(f"postgresql://me:{password}@host/db"))


@pytest.mark.parametrize("user", ["", "me@", "me:@", "change-me@", "me:change-me-not@", "me:4f1d@"])
def test_no_placeholder(user: str) -> None:
    assert not is_placeholder(SecretStr(f"postgresql://{user}host/db"))


@pytest.mark.parametrize(("variable", "scheme"), [("DATABASE", "postgresql"), ("REDIS", "redis")])
def test_a_placeholder_is_refused_where_people_sign_in(
    monkeypatch: pytest.MonkeyPatch, variable: str, scheme: str
) -> None:
    monkeypatch.setenv(f"KANDEV_{variable}_PASSWORD", "change-me")
    assert getattr(Settings(), f"{variable.lower()}_url").get_secret_value().startswith(f"{scheme}://:change-me@")
    monkeypatch.setenv("KANDEV_AUTH", "enabled")
    with pytest.raises(
        CommandFailed, match=f"KANDEV_{variable}_PASSWORD is still a placeholder.*set a long random one"
    ):
        load_settings()
    assert [row.variables[0] for row in setting_rows({}) if row.problem] == [f"KANDEV_{variable}_PASSWORD"]
    monkeypatch.setenv(f"KANDEV_{variable}_PASSWORD", "4f1d")
    assert load_settings().auth == "enabled"


def test_the_replica_has_the_databases_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KANDEV_REPLICA_URL", "postgresql://me@replica/db")
    monkeypatch.setenv("KANDEV_DATABASE_PASSWORD", "x")
    replica = Settings().replica_url
    assert replica is not None
    assert replica.get_secret_value() == "postgresql://me:x@replica/db"


@pytest.mark.parametrize("variable", ["KANDEV_DATABASE_URL_FILE", "DATABASE_URL_FILE"])
def test_a_secret_in_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str) -> None:
    file = tmp_path / "secret"
    file.write_text("postgresql://me:s%20x@host/db\n")
    monkeypatch.setenv(variable, str(file))
    assert Settings().database_url.get_secret_value() == "postgresql://me:s%20x@host/db"
    row = next(row for row in setting_rows({variable: str(file)}) if row.name == "database_url")
    assert (row.given, row.value) == (True, "postgresql://me:***@host/db")
    assert unknown_variables({variable: str(file)}) == ()


def test_what_is_no_secret_is_in_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [unknown.variable for unknown in unknown_variables({"KANDEV_AUTH_FILE": "x"})] == ["KANDEV_AUTH_FILE"]


@pytest.mark.parametrize(
    ("content", "more", "expected"),
    [
        (None, {}, "KANDEV_REDIS_PASSWORD_FILE names cannot be read: No such file"),
        (b"\xff", {}, "KANDEV_REDIS_PASSWORD_FILE names cannot be read: it is no text"),
        (b"x", {"KANDEV_REDIS_PASSWORD": "hunter2"}, "and KANDEV_REDIS_PASSWORD_FILE are both set: leave one out"),
    ],
)
def test_a_file_that_cannot_be_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | None, more: dict[str, str], expected: str
) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    for name, value in {"KANDEV_REDIS_PASSWORD_FILE": str(file), **more}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValidationError, match=expected) as raised:
        Settings()
    assert list(complaints_of(raised.value)) == [next(iter(more), "KANDEV_REDIS_PASSWORD_FILE")]
    assert "hunter2" not in str(raised.value)


def test_what_two_settings_say_together_is_told_by_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KANDEV_RPC_TLS_CERT", "certificate.pem")
    with pytest.raises(CommandFailed, match="KANDEV_RPC_TLS_CERT: KANDEV_RPC_TLS_CERT and KANDEV_RPC_TLS_KEY"):
        load_settings()
