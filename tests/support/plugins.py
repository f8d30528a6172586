"""Plugins of a gateway, as tests need them: put there by SQL, and known to a gateway before it is asked."""

import json
from collections.abc import Mapping, Sequence

from tests.support.stack import Stack
from tests.support.waiting import eventually

_PACKAGE = """
INSERT INTO gateway.plugin_packages (hash, plugin_id, version, archive) VALUES ($1, $2, $3, '')
    ON CONFLICT (hash) DO NOTHING
"""
_PLUGIN = """
INSERT INTO gateway.plugins AS p (id, version, package_hash, manifest, status) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (id) DO UPDATE SET version = excluded.version, package_hash = excluded.package_hash,
       manifest = excluded.manifest, status = excluded.status,
       installed_at = greatest(clock_timestamp(), p.installed_at + interval '1 microsecond')
RETURNING (extract(epoch FROM installed_at) * 1000000)::bigint
"""
_STATUS = """
UPDATE gateway.plugins SET status = $2 WHERE id = $1 RETURNING (extract(epoch FROM installed_at) * 1000000)::bigint
"""


def manifest(
    plugin_id: str,
    version: str = "1.0.0",
    *,
    reads: Sequence[str] = ("messages",),
    user_state: bool = True,
    more: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """A small manifest that keeps every rule."""
    return {
        "id": plugin_id,
        "api_version": 2,
        "version": version,
        "display_name": f"The plugin {plugin_id}",
        "min_kandev_version": "0.91.1",
        "capabilities": {"api_read": list(reads), "user_state": user_state},
        "ui": {"bundle": "/ui/bundle.js"},
        **(more or {}),
    }


async def install(
    stack: Stack,
    plugin_id: str,
    version: str = "1.0.0",
    *,
    reads: Sequence[str] = ("messages",),
    user_state: bool = True,
    status: str = "active",
    gateways: Sequence[str] = ("gateway",),
    headers: Mapping[str, str] | None = None,
) -> int:
    """Installs a plugin by SQL, or upgrades it, and waits until the gateways know it as it is now; its generation. It
    has no files. `headers`: of somebody who is signed in.
    """
    package = f"{plugin_id} {version}"
    await stack.pool.execute(_PACKAGE, package, plugin_id, version)
    text = json.dumps(manifest(plugin_id, version, reads=reads, user_state=user_state))
    generation: int = await stack.pool.fetchval(_PLUGIN, plugin_id, version, package, text, status)
    for gateway in gateways:
        await known(stack, plugin_id, gateway, generation if status == "active" else None, headers)
    return generation


async def set_status(
    stack: Stack,
    plugin_id: str,
    status: str,
    gateways: Sequence[str] = ("gateway",),
    headers: Mapping[str, str] | None = None,
) -> None:
    """Brings a plugin to a state by SQL, and waits until the gateways know."""
    generation: int = await stack.pool.fetchval(_STATUS, plugin_id, status)
    for gateway in gateways:
        await known(stack, plugin_id, gateway, generation if status == "active" else None, headers)


async def known(
    stack: Stack,
    plugin_id: str,
    gateway: str,
    generation: int | None,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Waits until a gateway holds this generation of a plugin for active, or, with None, none."""

    async def active() -> object:
        status, body = await stack.call("GET", f"/api/plugins/{plugin_id}", gateway=gateway, headers=headers)
        assert status in {200, 404}, body
        return body["generation"] if body.get("status") == "active" else None

    await eventually(active, lambda found: found == generation)
