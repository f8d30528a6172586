"""`kandev-conversation plugin install|list|enable|disable|remove|config`, each as a process of its own."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from services.gateway.plugins.configuration import MASK
from tests.integration.cli.command import Ended, ended, run, started
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


async def plugin(stack: Stack, *arguments: str | Path, **environment: str) -> Ended:
    return await run("plugin", *arguments, "--url", stack.url, **environment)


async def test_a_plugins_life(shared_stack: Stack, packed: tuple[str, Path]) -> None:
    name, target = packed
    installed = await plugin(shared_stack, "install", target)
    assert (installed.code, installed.out) == (0, "")
    assert f"{name} 1.0.0 is installed and active." in installed.err
    assert "not in effect: webhooks" in installed.err

    listed = await plugin(shared_stack, "list")
    line = next(line for line in listed.out.splitlines() if line.startswith(name))
    assert line.split()[:3] == [name, "1.0.0", "active"]

    assert (await plugin(shared_stack, "disable", name)).code == 0
    again = await plugin(shared_stack, "disable", name)
    assert (again.code, again.out) == (2, "")
    assert "a plugin that is disabled cannot become disabled" in again.err
    assert (await plugin(shared_stack, "enable", name)).code == 0

    assert (await plugin(shared_stack, "config", name, "--set", "lines=3", "--set", "name=a=b")).code == 0
    process = await started("plugin", "config", name, "--from", "-", "--url", shared_stack.url, stdin=-1)
    assert (await ended(process, b'{"lines": 3, "name": "n", "token": "planted-secret"}')).code == 0
    assert (await plugin(shared_stack, "config", name, "--unset", "name")).code == 0
    shown = await plugin(shared_stack, "config", name)
    assert json.loads(shown.out) == {"lines": 3, "token": MASK}
    kept = await shared_stack.pool.fetchval("SELECT config FROM gateway.plugins WHERE id = $1", name)
    assert json.loads(kept) == {"lines": 3, "token": "planted-secret"}

    unsure = await plugin(shared_stack, "remove", name)
    assert unsure.code == 130
    assert (await plugin(shared_stack, "remove", name, "--yes")).code == 0
    listed = await plugin(shared_stack, "list", "--json")
    assert name not in [each["id"] for each in json.loads(listed.out)["plugins"]]


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
    ):
        done = await plugin(shared_stack, *arguments)
        assert (done.code, done.out) == (2, ""), done
        assert says in done.err
        assert "Traceback" not in done.err
    nobody = await run("plugin", "list", "--url", "http://127.0.0.1:1")
    assert nobody.code == 2
    assert "cannot be used" in nobody.err


async def test_where_there_are_accounts_the_token_of_an_administrator_is_needed(
    guarded: Stack, administrator: Person, person: Person, packed: tuple[str, Path]
) -> None:
    _, target = packed
    for token, code, says in (
        ("", 2, "KANDEV_TOKEN"),
        (person.token, 2, "only an administrator may do this"),
        (administrator.token, 0, "is installed and active"),
    ):
        done = await plugin(guarded, "install", target, KANDEV_TOKEN=token)
        assert done.code == code
        assert says in done.err
        assert not token or token not in done.err
