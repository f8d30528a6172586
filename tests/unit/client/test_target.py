"""Which gateway a command talks to when it is not told."""

from pathlib import Path

import pytest

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
