"""What a plugin says it is: id, version, what it needs of its host, how it is shown."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from services.gateway.plugins.declarations import Manifest
from services.gateway.plugins.paths import path_problem
from services.gateway.plugins.rules.terms import ID, shown
from services.gateway.plugins.versions import Release, at_least

API_VERSIONS = (1, 2)
CATEGORIES = ("connector", "automation", "tools", "analytics")
LONGEST_NAME = 128
"""Characters of an id or a version: they become names of files and parts of addresses."""

RESERVED_IDS = frozenset({"install"})
"""Names that stand in addresses where ids do: `/api/plugins/install`."""

CONVERSATION_FLOOR: Release = (0, 91, 1)
"""The first release that lets plugins read messages, and that knows actions for administrators."""

_BLANK_OR_CONTROL = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")


def identity(manifest: Manifest) -> Iterator[str]:
    """Id, API version, version, categories, icon and repository."""
    yield from _id(manifest.id)
    if manifest.api_version not in API_VERSIONS:
        yield f"unsupported api_version {manifest.api_version}: only 1 and 2 are supported"
    yield from _version(manifest.version)
    for category in manifest.categories:
        if category not in CATEGORIES:
            yield f"unknown category {shown(category)}: expected one of {', '.join(CATEGORIES)}"
    if manifest.icon and (problem := path_problem(manifest.icon)):
        yield f"icon {shown(manifest.icon)} {problem}"
    if manifest.repo_url and not _is_web_address(manifest.repo_url):
        yield f"repo_url {shown(manifest.repo_url)} must be an http(s) URL"


def floors(manifest: Manifest) -> Iterator[str]:
    """What may only be declared by a plugin that asks for a host which knows it."""
    if at_least(manifest.min_kandev_version, CONVERSATION_FLOOR):
        return
    floor = ".".join(map(str, CONVERSATION_FLOOR))
    if "messages" in manifest.capabilities.api_read:
        yield f'api_read resource "messages" requires min_kandev_version >= {floor}'
    for action in manifest.actions:
        if action.access == "admin":
            yield f'action {shown(action.key)}: access "admin" requires min_kandev_version >= {floor}'


def _id(name: str) -> Iterator[str]:
    if not ID.fullmatch(name):
        yield f"invalid plugin id {shown(name)}: must match ^{ID.pattern}$"
    if name.endswith(".config"):
        yield f'invalid plugin id {shown(name)}: must not end in ".config"'
    if name in RESERVED_IDS:
        yield f"invalid plugin id {shown(name)}: an address of the host has this name"
    if len(name) > LONGEST_NAME:
        yield f"invalid plugin id {shown(name)}: must not be longer than {LONGEST_NAME} characters"


def _version(version: str) -> Iterator[str]:
    if not version:
        yield "version must not be empty"
    if _BLANK_OR_CONTROL.search(version):
        yield "version must not contain whitespace or control characters"
    if "/" in version or "\\" in version:
        yield "version must be a single path segment"
    if version in {".", ".."}:
        yield 'version must not be "." or ".."'
    if len(version) > LONGEST_NAME:
        yield f"version must not be longer than {LONGEST_NAME} characters"


def _is_web_address(text: str) -> bool:
    try:
        address = urlsplit(text)
    except ValueError:
        return False
    return address.scheme in {"http", "https"} and bool(address.hostname) and not _BLANK_OR_CONTROL.search(text)
