"""Plugins of a gateway, as tests need them: packages, put there by SQL or by the gateway's own route."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp

from tests.support.stack import Stack
from tests.support.waiting import eventually

_PACKAGE = """
INSERT INTO gateway.plugin_packages (hash, plugin_id, version, archive) VALUES ($1, $2, $3, $4)
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


def sealed(files: Mapping[str, bytes]) -> bytes:
    """An archive of these files and their checksums. The same files give the same bytes."""
    lines = (f"{hashlib.sha256(content).hexdigest()}  {path}\n" for path, content in files.items())
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w") as archive:
        for path, content in {**files, "checksums.txt": "".join(lines).encode()}.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(output.getvalue(), 1, mtime=0)


def package(declared: Mapping[str, object], **files: bytes) -> bytes:
    """A good package of a manifest: a bundle that says which version it is of, and further files by their paths."""
    bundle = f"export default {json.dumps(declared['version'])};\n".encode()
    return sealed({"manifest.yaml": json.dumps(declared).encode(), "ui/bundle.js": bundle, **files})


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
    """Installs a plugin by SQL, or upgrades it, and waits until the gateways know it as it is now; its generation.
    `headers`: of somebody who is signed in.
    """
    declared = manifest(plugin_id, version, reads=reads, user_state=user_state)
    archive = package(declared)
    name = hashlib.sha256(archive).hexdigest()
    await stack.pool.execute(_PACKAGE, name, plugin_id, version, archive)
    generation: int = await stack.pool.fetchval(_PLUGIN, plugin_id, version, name, json.dumps(declared), status)
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


async def upload(
    stack: Stack,
    archive: bytes,
    gateway: str = "gateway",
    headers: Mapping[str, str] | None = None,
) -> tuple[int, dict[str, Any]]:
    """What a gateway answers to an uploaded package."""
    form = aiohttp.FormData()
    form.add_field("package", archive, filename="package.tar.gz", content_type="application/gzip")
    status, body = await stack.call("POST", "/api/plugins/install", gateway=gateway, headers=headers, data=form)
    return status, dict(body)
