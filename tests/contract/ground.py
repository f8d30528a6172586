"""What a gateway holds while it is explored: rows, plugins and an administrator, for requests to meet."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from pydantic import SecretStr

from services.gateway.identity.accounts import Accounts
from services.gateway.identity.tokens import AccessTokens
from services.gateway.plugins.packing import read_folder, write_package
from shared.database import open_pool
from tests.support.plugins import manifest
from tests.support.stack import Stack

_TURN = "INSERT INTO task_session_turns (id, task_session_id, task_id) VALUES ('turn', 'explored', 't')"


FIXED = {
    "workspace": "w",
    "task": "t",
    "session": "explored",
    "message": "message",
    "turn": "turn",
    "plugin": "explored",
    "switched_plugin": "switched",
    "asset": "ui/bundle.js",
    **dict.fromkeys(("doomed_task", "doomed_session", "doomed_message", "doomed_plugin"), "doomed"),
}
"""Ids by the names that `schemathesis.toml` has for them."""


@dataclass(frozen=True, slots=True)
class Ground:
    """`headers`: of an administrator. `ids`: those of FIXED, and those that the services made."""

    headers: Mapping[str, str]
    ids: Mapping[str, str]


async def lay(stack: Stack, folder: Path) -> Ground:
    """Makes everything, in a stack with authentication enabled. `folder` takes packages of plugins."""
    await stack.pool.execute("INSERT INTO tasks (id, workspace_id) VALUES ('doomed', 'w')")
    await stack.session("doomed")
    await stack.session("explored")
    for message in ("message", "doomed"):
        await stack.add("explored", message, content="<kandev-system>hidden</kandev-system> shown")
    await stack.pool.execute(_TURN)
    user, headers, doomed_token = await _people(stack)
    for plugin in ("explored", "switched", "doomed"):
        await _install(stack, plugin, folder, headers)
    prompts = {name: await _prompt(stack, name, headers) for name in ("prompt", "doomed_prompt")}
    _, binding = await stack.call("GET", "/api/plugins/explored/conversation/binding", headers=headers)
    ids = {"user": user, "doomed_token": doomed_token, "binding": str(binding["bindingToken"])} | prompts
    return Ground(headers, FIXED | ids)


async def _people(stack: Stack) -> tuple[str, Mapping[str, str], str]:
    """Another user's id, an administrator's headers, and the id of a token that they do not need."""
    pool = await open_pool(SecretStr(stack.database_url), 1, "test")
    accounts, tokens = Accounts(pool), AccessTokens(pool)
    administrator = await accounts.add("administrator", "", administrator=True)
    other = await accounts.add("other", "")
    _, text = await tokens.add(administrator.id)
    doomed, _ = await tokens.add(administrator.id)
    await pool.close()
    return other.id, {"Authorization": f"Bearer {text}"}, doomed.id


async def _prompt(stack: Stack, name: str, headers: Mapping[str, str]) -> str:
    status, body = await stack.call("POST", "/api/v1/prompts", headers=headers, json={"name": name, "content": "text"})
    assert status == 201, body
    return str(body["id"])


async def _install(stack: Stack, plugin: str, folder: Path, headers: Mapping[str, str]) -> None:
    source, package = folder / plugin, folder / f"{plugin}.tar.gz"
    (source / "ui").mkdir(parents=True)
    (source / "ui" / "bundle.js").write_text("export default {}\n")
    (source / "manifest.yaml").write_text(json.dumps(manifest(plugin)))
    write_package(*read_folder(source), package)
    form = aiohttp.FormData()
    form.add_field("package", package.read_bytes(), filename=package.name)
    status, body = await stack.call("POST", "/api/plugins/install", headers=headers, data=form)
    assert status == 201, body
