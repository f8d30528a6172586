"""`kandev-conversation plugin install|list|enable|disable|remove|config`."""

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cli.errors import CommandFailed
from cli.plugin import plugin as group
from services.gateway.plugins.masking import MASK
from tests.integration.cli.command import run
from tests.integration.identity.people import Person
from tests.support.plugins import manifest, package
from tests.support.stack import Stack

_numbers = itertools.count()

SETTINGS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "lines": {"type": "integer"},
        "name": {"type": "string"},
        "token": {"type": "string", "format": "password"},
    },
}


@pytest.fixture
def packed(tmp_path: Path) -> tuple[str, Path]:
    """A plugin's id, and its package."""
    name = f"command{next(_numbers)}"
    target = tmp_path / "package.tar.gz"
    target.write_bytes(package(manifest(name, more={"config_schema": SETTINGS, "webhooks": [{"key": "in"}]})))
    return name, target


async def plugin(stack: Stack, *arguments: str | Path, given: str | None = None, token: str = "") -> Result:
    """How a command ends, run in this process: starting one takes longer than what it does."""
    parts = [*map(str, arguments), "--url", stack.url]
    return await asyncio.to_thread(CliRunner().invoke, group, parts, input=given, env={"KANDEV_TOKEN": token})


def failure(result: Result) -> str:
    """What a command says that could not be done."""
    assert isinstance(result.exception, CommandFailed), result
    assert result.stdout == ""
    return str(result.exception)


async def test_a_plugins_life(shared_stack: Stack, packed: tuple[str, Path]) -> None:
    name, target = packed
    installed = await plugin(shared_stack, "install", target)
    assert (installed.exit_code, installed.stdout) == (0, "")
    assert f"{name} 1.0.0 is installed and active." in installed.stderr
    assert "not in effect: webhooks" in installed.stderr

    listed = await plugin(shared_stack, "list")
    line = next(line for line in listed.stdout.splitlines() if line.startswith(name))
    assert line.split()[:3] == [name, "1.0.0", "active"]

    assert (await plugin(shared_stack, "disable", name)).exit_code == 0
    again = await plugin(shared_stack, "disable", name)
    assert (again.exit_code, again.stderr) == (0, f"{name} is disabled already.\n")
    assert (await plugin(shared_stack, "enable", name)).exit_code == 0
    again = await plugin(shared_stack, "enable", name)
    assert (again.exit_code, again.stderr) == (0, f"{name} is active already.\n")

    assert (await plugin(shared_stack, "config", name, "--set", "lines=3", "--set", "name=a=b")).exit_code == 0
    whole = '{"lines": 3, "name": "n", "token": "planted-secret"}'
    assert (await plugin(shared_stack, "config", name, "--from", "-", given=whole)).exit_code == 0
    assert (await plugin(shared_stack, "config", name, "--unset", "name")).exit_code == 0
    shown = await plugin(shared_stack, "config", name)
    assert json.loads(shown.stdout) == {"lines": 3, "token": MASK}
    kept = await shared_stack.pool.fetchval("SELECT config FROM gateway.plugins WHERE id = $1", name)
    assert json.loads(kept) == {"lines": 3, "token": "planted-secret"}

    unsure = await plugin(shared_stack, "remove", name, given="n\n")
    assert unsure.exit_code != 0
    assert (await plugin(shared_stack, "remove", name, "--yes")).exit_code == 0
    listed = await plugin(shared_stack, "list", "--json")
    assert name not in [each["id"] for each in json.loads(listed.stdout)["plugins"]]


async def test_what_cannot_be_done_says_why(shared_stack: Stack, packed: tuple[str, Path], tmp_path: Path) -> None:
    name, target = packed
    await plugin(shared_stack, "install", target)
    bad = tmp_path / "bad.tar.gz"
    bad.write_bytes(b"no archive")
    for arguments, says in (
        (("install", target), "is installed already"),
        (("install", bad), "(400)"),
        (("install", tmp_path / "absent"), "cannot be read: No such file"),
        (("install", tmp_path), "cannot be read"),
        (("install", "https://example.org/p.tar.gz"), "KANDEV_PLUGIN_SOURCES"),
        (("enable", "a/b"), "there is no such plugin"),
        (("remove", "unknown", "--yes"), "there is no such plugin"),
        (("config", name, "--set", "lines"), "NAME=VALUE"),
        (("config", name, "--set", "lines=many"), "(400)"),
        (("config", name, "--from", bad), "no JSON object"),
        (("config", name, "--from", "/dev/zero"), "more than 1,048,576 bytes"),
        (("config", name, "--set", "lines=18446744073709551616"), "give it as text: 'lines=\"...\"'"),
        (("config", name, "--set", "lines=0.1234567890123456789"), "give it as text"),
        (("config", name, "--set", "name=\udcff"), "UTF-8"),
    ):
        assert says in failure(await plugin(shared_stack, *arguments))


async def test_a_gateway_that_is_not_there_is_told_with_exit_code_2() -> None:
    nobody = await run("plugin", "list", "--url", "http://127.0.0.1:1")
    assert (nobody.code, nobody.out) == (2, "")
    assert "cannot be used" in nobody.err
    assert "Traceback" not in nobody.err


async def test_where_there_are_accounts_the_token_of_an_administrator_is_needed(
    guarded: Stack, administrator: Person, person: Person, packed: tuple[str, Path]
) -> None:
    _, target = packed
    assert "KANDEV_TOKEN" in failure(await plugin(guarded, "install", target))
    refused = failure(await plugin(guarded, "install", target, token=person.token))
    assert "only an administrator may do this" in refused
    assert person.token not in refused
    done = await plugin(guarded, "install", target, token=administrator.token)
    assert "is installed and active" in done.stderr
