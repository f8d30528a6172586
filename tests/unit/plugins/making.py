"""Manifests and archives as authors make them, and as they should not."""

import copy
import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

BROWSER_ONLY: dict[str, Any] = {
    "id": "notes",
    "api_version": 2,
    "version": "1.0.0",
    "min_kandev_version": "0.95.0",
    "capabilities": {"api_read": ["messages"]},
    "ui": {"bundle": "/ui/bundle.js"},
}
FULL: dict[str, Any] = {
    **BROWSER_ONLY,
    "display_name": "Notes",
    "description": "Takes notes",
    "author": "kandev",
    "categories": ["connector", "automation", "tools", "analytics"],
    "icon": "ui/icon.svg",
    "repo_url": "https://example.org/notes",
    "capabilities": {
        "api_read": ["messages", "tasks", "anything"],
        "auth": True,
        "user_state": True,
        "events": ["a.*"],
    },
    "webhooks": [
        {"key": "login", "method": "GET"},
        {"key": "upload", "access": "authenticated", "max_body_bytes": 16 * 1024 * 1024},
        {"key": "hook", "max_body_bytes": 4 * 1024 * 1024},
    ],
    "actions": [
        {"key": "save", "scope": "task", "max_body_bytes": 1},
        {"key": "load", "scope": "workspace", "max_body_bytes": 1048576, "access": "admin"},
        {"key": "sync", "resource_scope": "repository", "max_body_bytes": 10},
    ],
    "repository_providers": ["gitea", "forgejo"],
    "reference_sources": [
        {"source": "issues", "provider": "gitea", "kind": "issue", "display_name": "Issues", "kind_label": "Issue"},
        {"source": "pulls", "provider": "gitea", "kind": "pull:request", "display_name": "P", "kind_label": "x" * 100},
    ],
    "auth_providers": [{"id": "gitea", "display_name": "Gitea", "initiate": "login"}],
    "agent_tools": [
        {
            "name": "note_down",
            "description": "Writes a note",
            "surfaces": ["kanban-task", "office-task"],
            "input_schema": {"type": "object"},
            "annotations": {"read_only_hint": False},
        }
    ],
    "config_schema": {"type": "object", "properties": {"lines": {"type": "integer", "enum": [2, 3]}}},
    "ui": {
        "bundle": "/ui/bundle.js",
        "styles": ["/ui/plugin.css"],
        "pages": [{"key": "main", "title": "Notes", "path": "/notes", "surface": "main-nav"}],
        "keybindings": [{"id": "open-notes", "default": "mod+shift+K", "description": "Open", "allow_in_editor": True}],
    },
    "runtime": {"type": "binary", "executables": {"linux-amd64": "server/plugin-linux-amd64"}},
}


def changed(manifest: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The manifest with another value at `path`, whose parts are keys and indices between dots."""
    whole = copy.deepcopy(dict(manifest))
    *parents, last = path.split(".")
    at: Any = whole
    for step in parents:
        at = at[int(step)] if isinstance(at, list) else at.setdefault(step, {})
    at[int(last) if isinstance(at, list) else last] = value
    return whole


def text(manifest: Mapping[str, Any]) -> bytes:
    """As a file: JSON is YAML."""
    return orjson.dumps(manifest)


def sums(files: Mapping[str, bytes]) -> bytes:
    """The checksums of the files."""
    return "".join(f"{hashlib.sha256(content).hexdigest()}  {path}\n" for path, content in files.items()).encode()


def package_files(manifest: Mapping[str, Any] = BROWSER_ONLY, /, **others: bytes) -> dict[str, bytes]:
    """What a good package holds besides its checksums."""
    return {"manifest.yaml": text(manifest), "ui/bundle.js": b"export default {}", **others}


def member(
    name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    """An entry of an archive, as it is told and what follows."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, len(content)
    return info, content


def tar(*members: tuple[tarfile.TarInfo, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    """The entries one after the other, uncompressed."""
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=form) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return output.getvalue()


def sealed(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files and their checksums."""
    return {**files, "checksums.txt": sums(files)}


def packed(
    path: Path, files: Mapping[str, bytes], *more: tuple[tarfile.TarInfo, bytes], form: int = tarfile.PAX_FORMAT
) -> Path:
    """An archive of exactly these files and entries."""
    members = [member(name, content) for name, content in files.items()]
    path.write_bytes(gzip.compress(tar(*members, *more, form=form), 1))
    return path
