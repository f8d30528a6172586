"""Which values settings take."""

import pytest
from pydantic import ValidationError

from shared.settings import Settings

GOOD = {
    "KANDEV_DATABASE_URL": [
        "postgresql://localhost:5432/kandev",
        "postgres://me:p%40ss@[::1]:5432/db?sslmode=require",
        "postgresql://one:1,two:2/db",
        "postgresql:///db?host=/run/postgresql",
        "postgresql://me:secret@host/db",
    ],
    "KANDEV_REPLICA_URL": ["postgresql://replica/db"],
    "KANDEV_REDIS_URL": ["redis://localhost:6379/0", "rediss://:secret@host", "unix:///run/redis.sock?db=1"],
}
BAD = {
    "KANDEV_DATABASE_URL": [
        "hunter2",
        "mysql://hunter2",
        "postgresql:hunter2",
        "postgresql://hunter2:port/db",
        "postgresql://hunter2:0/db",
        "postgresql://hunter2:65536/db",
        "postgresql://[hunter2/db",
        "postgresql://hunter2\n/db",
    ],
    "KANDEV_REPLICA_URL": ["redis://hunter2"],
    "KANDEV_REDIS_URL": ["hunter2", "http://hunter2", "redis:hunter2", "redis://hunter2:x", "unix://", "rediss://h:-1"],
}


@pytest.mark.parametrize(("variable", "value"), [(name, value) for name, values in GOOD.items() for value in values])
def test_an_address(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    monkeypatch.setenv(variable, value)
    secret = getattr(Settings(), variable.removeprefix("KANDEV_").lower())
    assert secret.get_secret_value() == value


@pytest.mark.parametrize(("variable", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_what_is_no_address_is_refused_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ValidationError, match="expected an address like") as raised:
        Settings()
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("variable", ["KANDEV_PORT", "PORT", "KANDEV_DATABASE_URL", "KANDEV_LOG_LEVEL"])
def test_a_variable_that_is_set_to_nothing_is_unset(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    for name in ("KANDEV_PORT", "PORT", "KANDEV_DATABASE_URL", "DATABASE_URL", "KANDEV_LOG_LEVEL"):
        monkeypatch.delenv(name, raising=False)
    plain = Settings()
    monkeypatch.setenv(variable, "")
    assert Settings() == plain
    assert Settings().model_fields_set == plain.model_fields_set


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.10", "kandev.example.com"])
def test_other_machines_are_let_in_only_on_purpose(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setenv("KANDEV_HOST", host)
    with pytest.raises(ValidationError, match="set KANDEV_AUTH=enabled, or list the names") as raised:
        Settings()
    assert [error["loc"] for error in raised.value.errors()] == [("host",)]
    for name, value in (("KANDEV_AUTH", "enabled"), ("KANDEV_ALLOWED_HOSTS", "kandev.example.com")):
        with monkeypatch.context() as context:
            context.setenv(name, value)
            assert Settings().host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.1.2.3"])
def test_this_machine_alone_needs_no_accounts(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setenv("KANDEV_HOST", host)
    assert Settings().host == host


def test_a_certificate_and_its_key_are_given_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KANDEV_RPC_TLS_CERT", "certificate.pem")
    with pytest.raises(ValidationError, match="KANDEV_RPC_TLS_KEY"):
        Settings()
    monkeypatch.setenv("KANDEV_RPC_TLS_KEY", "key.pem")
    assert Settings().rpc_tls_key is not None
