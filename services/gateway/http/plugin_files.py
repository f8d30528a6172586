"""What the browser loads of a plugin: its bundle, and the files of its package that belong to its user interface."""

import asyncio
from collections.abc import Mapping
from io import BufferedReader
from pathlib import PurePosixPath

from aiohttp import web

from services.gateway.http.keys import PLUGINS, REGISTRY
from services.gateway.http.routes import Answer, Json, Parameter, Route, plain_errors
from services.gateway.plugins.cache import CachedFile
from services.gateway.plugins.lifecycle import UNKNOWN
from services.gateway.plugins.registry import ActivePlugin
from shared.contracts.errors import RequestFailed

FOR_GOOD = "private, max-age=31536000, immutable"
"""For a URL that names the very package: what it answers never changes."""

ASK_AGAIN = "private, no-cache"
"""For every other URL: kept, and compared before each use."""

_TEXT = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".json": "application/json",
    ".map": "application/json",
    ".md": "text/markdown",
    ".mjs": "text/javascript",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".xml": "application/xml",
}
_BINARY = {
    ".avif": "image/avif",
    ".gif": "image/gif",
    ".ico": "image/x-icon",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".mp3": "audio/mpeg",
    ".mp4": "video/mp4",
    ".otf": "font/otf",
    ".png": "image/png",
    ".ttf": "font/ttf",
    ".wasm": "application/wasm",
    ".webm": "video/webm",
    ".webp": "image/webp",
    ".woff": "font/woff",
    ".woff2": "font/woff2",
}
_UNNAMED = "application/octet-stream"


def content_type(path: str) -> str:
    """The `Content-Type` of a file, by its ending and on every machine the same."""
    ending = PurePosixPath(path).suffix.lower()
    if ending in _TEXT:
        return f"{_TEXT[ending]}; charset=utf-8"
    return _BINARY.get(ending, _UNNAMED)


async def bundle(request: web.Request) -> web.Response:
    """The ES module that the browser imports."""
    plugin = _active(request)
    path = plugin.manifest.ui.bundle
    if not path:
        raise RequestFailed("not_found", "the plugin has no bundle")
    return await _served(request, plugin, path.removeprefix("/"), "text/javascript; charset=utf-8")


async def file(request: web.Request) -> web.Response:
    """A file below the package's `ui/`, or one that its manifest names for the browser. The path is looked up among
    those that the package lists: nothing else has a way to the disk.
    """
    plugin = _active(request)
    path = request.match_info["path"]
    if not path.startswith("ui/") and path not in _named(plugin):
        raise RequestFailed("not_found", _NO_FILE)
    return await _served(request, plugin, path, content_type(path))


def _named(plugin: ActivePlugin) -> frozenset[str]:
    """The files that the manifest names for the browser, wherever they are in the package."""
    ui = plugin.manifest.ui
    return frozenset((plugin.manifest.icon, *(path.removeprefix("/") for path in (ui.bundle, *ui.styles))))


_NO_FILE = "the plugin has no such file"


def _active(request: web.Request) -> ActivePlugin:
    plugin_id, registry = request.match_info["plugin_id"], request.app[REGISTRY]
    plugin = registry.active(plugin_id)
    if plugin is not None:
        return plugin
    if registry.installed(plugin_id) is None:
        raise RequestFailed("not_found", UNKNOWN)
    raise RequestFailed("unavailable", "plugin is not active")


async def _served(request: web.Request, plugin: ActivePlugin, path: str, kind: str) -> web.Response:
    found = await _listed(request, plugin, path)
    headers = _headers(request, plugin, found)
    if any(known.value in {found.sha256, "*"} for known in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    try:
        opened = await asyncio.to_thread(found.open)
    except OSError:
        # Somebody has tidied up the cache, or changed something in it.
        request.app[PLUGINS].forget_files(plugin)
        found = await _listed(request, plugin, path)
        opened = await _opened(found)
    return web.Response(body=opened, headers={**headers, "Content-Type": kind})


async def _opened(found: CachedFile) -> BufferedReader:
    try:
        return await asyncio.to_thread(found.open)
    except OSError:
        raise RequestFailed("unavailable", "the plugin's files cannot be read at the moment") from None


async def _listed(request: web.Request, plugin: ActivePlugin, path: str) -> CachedFile:
    found = (await request.app[PLUGINS].files(plugin)).get(path)
    if found is None:
        raise RequestFailed("not_found", _NO_FILE)
    return found


def _headers(request: web.Request, plugin: ActivePlugin, found: CachedFile) -> Mapping[str, str]:
    for_good = request.query.get("v") == plugin.asset_version
    return {
        "ETag": f'"{found.sha256}"',
        "Cache-Control": FOR_GOOD if for_good else ASK_AGAIN,
        "X-Content-Type-Options": "nosniff",
    }


_HEADERS = {
    "ETag": "SHA-256 of the file.",
    "Cache-Control": "For good where `v` names the package, else to be compared before each use.",
    "X-Content-Type-Options": "`nosniff`.",
}
_SAME: Json = {"type": "string"}
_TAG = "plugins"
_VERSION = Parameter("v", "Names the package, as the boot payload does: the answer may then be kept for good.")
_ETAG = Parameter("If-None-Match", "Tag of what the client has.", "header")
_UNCHANGED = Answer(304, "The client has it already.", headers=_HEADERS)

ROUTES = (
    Route(
        "GET",
        "/api/plugins/{plugin_id}/bundle",
        bundle,
        "The plugin's ES module",
        _TAG,
        (
            Answer(200, "The module.", media_type="text/javascript", headers=_HEADERS),
            _UNCHANGED,
            *plain_errors(404),
        ),
        parameters=(_VERSION, _ETAG),
    ),
    Route(
        "GET",
        "/api/plugins/{plugin_id}/ui/{path:.+}",
        file,
        "A file of the plugin's user interface",
        _TAG,
        (
            Answer(200, "The file, its type by its ending.", media_type="*/*", headers=_HEADERS),
            _UNCHANGED,
            *plain_errors(404),
        ),
        parameters=(
            Parameter(
                "path",
                "Path in the package, below `ui/`; or one that the manifest names.",
                "path",
                _SAME,
                required=True,
            ),
            _VERSION,
            _ETAG,
        ),
    ),
)
