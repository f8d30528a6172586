"""The SDK apart from any host."""

import copy
import inspect
import pickle
from datetime import UTC, datetime
from pathlib import Path

import kandev_plugin_sdk
import pytest
from kandev_plugin_sdk import (
    Host,
    HostError,
    Message,
    MessageFilter,
    MessageReader,
    Page,
    PageInfo,
    Unavailable,
)


def test_no_generated_type_is_in_its_surface() -> None:
    for name in kandev_plugin_sdk.__all__:
        exported = getattr(kandev_plugin_sdk, name)
        assert "_generated" not in exported.__module__
        for member_name, member in inspect.getmembers(exported, inspect.isfunction):
            if not member_name.startswith("_"):
                told = inspect.signature(member, eval_str=True)
                assert "plugin_pb2" not in str(told), (name, member_name)


async def test_a_time_without_a_zone_is_refused_here() -> None:
    async with Host("127.0.0.1:1", "token") as host:
        with pytest.raises(ValueError, match="since needs a zone"):
            await host.messages().list(MessageFilter(since=datetime(2026, 1, 31)))  # noqa: DTZ001 - what is refused


@pytest.mark.parametrize("field", ["session_ids", "task_ids", "types"])
async def test_one_text_is_not_taken_for_its_letters(field: str) -> None:
    async with Host("127.0.0.1:1", "token") as host:
        with pytest.raises(TypeError, match=f"{field} has several values"):
            await host.messages().list(MessageFilter(**{field: "abc"}))  # type: ignore[arg-type] # what is refused


def test_a_host_is_used_inside_its_block() -> None:
    with pytest.raises(RuntimeError, match="async with"):
        Host("127.0.0.1:1", "token").messages()


async def test_the_environment_names_the_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KANDEV_PLUGIN_TOKEN", raising=False)
    with pytest.raises(KeyError):
        Host.from_environment()
    monkeypatch.setenv("KANDEV_PLUGIN_TOKEN", " token\n")
    monkeypatch.setenv("KANDEV_RPC_TLS_CA", str(tmp_path / "absent"))
    with pytest.raises(FileNotFoundError):
        Host.from_environment()
    monkeypatch.setenv("KANDEV_RPC_TLS_CA", "system")
    async with Host.from_environment() as host:
        assert isinstance(host.messages(), MessageReader)


def test_a_token_is_not_shown() -> None:
    assert "planted" not in repr(Host("127.0.0.1:1", "planted"))


@pytest.mark.parametrize(
    "value",
    [
        Message("m", "s", "t", "", "agent", "text", "message", datetime(2026, 11, 30, tzinfo=UTC)),
        MessageFilter(since="2026-11-30T00:00:00Z", types=("message",)),
        Page(20, "cursor"),
        PageInfo("cursor", has_more=True),
    ],
)
def test_what_is_asked_and_answered_goes_to_other_processes(value: object) -> None:
    assert pickle.loads(pickle.dumps(value)) == value
    assert copy.deepcopy(value) == value


@pytest.mark.parametrize("kind", [HostError, Unavailable])
def test_what_a_call_failed_with_goes_to_other_processes(kind: type[HostError]) -> None:
    for told in (pickle.loads(pickle.dumps(kind("CODE", "text"))), copy.copy(kind("CODE", "text"))):
        assert (type(told), told.code, str(told)) == (kind, "CODE", "text")
