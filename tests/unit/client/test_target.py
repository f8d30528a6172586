"""Which gateway a command talks to when it is not told."""

from pathlib import Path

import pytest

from cli.errors import CommandFailed
from cli.target import DEFAULT_URL, target_url
from deploy.local.running import DataFolder, RunningStack

STACK = RunningStack(
    pid=1, started_at="", url="http://127.0.0.1:4711", ws_url="", database_url="", redis_url="", ports={}
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("KANDEV_URL", raising=False)
    monkeypatch.setenv("KANDEV_DATA_DIR", str(tmp_path))
    return tmp_path


def test_the_default_port_when_nothing_runs(folder: Path) -> None:
    assert target_url() == DEFAULT_URL


def test_the_stack_that_runs_here_while_it_runs(folder: Path) -> None:
    with DataFolder(folder) as data:
        data.announce(STACK)
        assert target_url() == STACK.url
    assert target_url() == DEFAULT_URL


def test_the_environment_wins_over_the_stack_and_the_option_over_both(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KANDEV_URL", "http://environment")
    with DataFolder(folder) as data:
        data.announce(STACK)
        assert target_url() == "http://environment"
        assert target_url("http://option") == "http://option"


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("http://host:8080/", "http://host:8080"),
        ("ws://host:8080/ws", "http://host:8080"),
        ("wss://host/ws", "https://host"),
        ("WS://host/behind/a/proxy/ws/", "http://host/behind/a/proxy"),
        ("https://[::1]:8443/behind", "https://[::1]:8443/behind"),
    ],
)
def test_the_address_of_the_socket_names_the_gateway_too(folder: Path, given: str, meant: str) -> None:
    assert target_url(given) == meant


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("localhost:8080", "write http://localhost:8080"),
        ("localhost", "write http://localhost"),
        ("", "write it as in http://"),
        ("me:hunter2@host", "write it as in http://"),
        ("ftp://host", "no URL of a gateway"),
        ("http://", "no URL of a gateway"),
        ("http://host:port", "no URL of a gateway"),
        ("http://host:0", "no URL of a gateway"),
        ("http://host:70000", "no URL of a gateway"),
        ("http://[::1", "no URL of a gateway"),
        ("http://a b", "no URL of a gateway"),
        ("http://a\nb", "no URL of a gateway"),
    ],
)
@pytest.mark.parametrize("source", ["--url", "KANDEV_URL"])
def test_what_is_no_url_is_a_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, source: str, given: str, says: str
) -> None:
    if source == "KANDEV_URL" and given:
        monkeypatch.setenv(source, given)
        with pytest.raises(CommandFailed, match=f"KANDEV_URL is no URL.*{says}|KANDEV_URL is {says}"):
            target_url()
    else:
        with pytest.raises(CommandFailed, match=f"--url is no URL.*{says}|--url is {says}"):
            target_url(given)


def test_variables_that_are_set_to_nothing_are_unset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KANDEV_URL", "")
    monkeypatch.setenv("KANDEV_DATA_DIR", "")
    with DataFolder(tmp_path / ".data") as data:
        data.announce(STACK)
        assert target_url() == STACK.url
