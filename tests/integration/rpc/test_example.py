"""The worked example, on conversations as an import makes them, and the programs of the documentation as they stand."""

import asyncio
import os
import re
import sys
from datetime import UTC, datetime
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
from kandev_plugin_sdk import Host

from tests.integration.rpc.calls import Plugin, Rows
from tests.support.stack import Stack

ROOT = Path(__file__).parents[3]
FILE = ROOT / "docs/examples/daily_standup.py"
SINCE, UNTIL = datetime(2026, 11, 30, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def example() -> ModuleType:
    """The example as a module."""
    spec = spec_from_file_location("daily_standup", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


async def test_each_task_is_told_by_what_was_asked_and_answered_that_day(
    shared_stack: Stack, host: Host, example: ModuleType
) -> None:
    lamp, door = await Rows(shared_stack).make(), await Rows(shared_stack).make()
    await lamp.add("before", "2026-11-29T23:59:59.999999Z", author="user", content="not of the day")
    await lamp.add("a", "2026-11-30T00:00:00Z", author="user", content="Make the lamp\ngreen")
    await lamp.add("b", "2026-11-30T10:00:00Z", kind="tool_edit", content="edit")
    await lamp.add("c", "2026-11-30T11:00:00Z", content="It is <kandev-system>planted</kandev-system> green")
    await door.add("d", "2026-11-30T12:00:00Z", author="user", content="Open the door " * 20)
    await door.add("after", "2026-12-01T00:00:00Z", content="not of the day")
    found = await example.digests(host, SINCE, UNTIL, [lamp.task, door.task])
    assert set(found) == {lamp.task, door.task}
    told = example.told(lamp.task, found[lamp.task])
    assert told.splitlines() == [
        f"{lamp.task}: 1 session; 1 x prompt, 1 x tool_edit, 1 x message",
        "  > Make the lamp green",
        "  = It is green",
    ]
    _, line = example.told(door.task, found[door.task]).splitlines()
    assert line.startswith("  > Open the door Open")
    assert line.endswith("...")
    assert len(line) == len("  > ") + example.WIDTH


async def test_it_says_what_is_missing(
    shared_stack: Stack,
    plugin: Plugin,
    example: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KANDEV_RPC_ADDRESS", shared_stack.rpc_of())
    monkeypatch.delenv("KANDEV_PLUGIN_TOKEN", raising=False)
    assert await example.standup(SINCE, UNTIL, ["absent"]) == 2
    assert "plugin token" in capsys.readouterr().err
    monkeypatch.setenv("KANDEV_PLUGIN_TOKEN", plugin.token[:-3])
    assert await example.standup(SINCE, UNTIL, ["absent"]) == 2
    assert "token of an active plugin" in capsys.readouterr().err
    monkeypatch.setenv("KANDEV_PLUGIN_TOKEN", plugin.token)
    assert await example.standup(SINCE, UNTIL, ["absent"]) == 0
    assert capsys.readouterr().out == "Nothing was talked about.\n"


@pytest.mark.parametrize("day", ["yesterday", "", "2026-02-30"])
def test_what_is_no_day_is_told_by_an_example_of_one(
    example: ModuleType, day: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["daily_standup.py", "--since", day])
    with pytest.raises(SystemExit):
        example.main()
    assert "argument --since: expected a day such as 2026-01-31" in capsys.readouterr().err


@pytest.mark.parametrize("document", ["docs/host-rpc.md", "sdk/python/README.md"])
async def test_the_programs_of_the_documentation_run(shared_stack: Stack, plugin: Plugin, document: str) -> None:
    rows = await Rows(shared_stack).make()
    content = f"said just now, {rows.key}"
    await rows.add("m", datetime.now(UTC).isoformat(), content=content)
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program),
        env={**os.environ, "KANDEV_RPC_ADDRESS": shared_stack.rpc_of(), "KANDEV_PLUGIN_TOKEN": plugin.token},
        stdout=asyncio.subprocess.PIPE,
    )
    told, _ = await process.communicate()
    assert process.returncode == 0
    assert content in told.decode()
