"""Plugins: what is installed, for everybody; installing, switching, configuring and removing, for administrators."""

from typing import Any

import aiohttp
from aiohttp import BodyPartReader, web

from services.gateway.http.bodies import encoded, object_in, read_as
from services.gateway.http.errors import BadRequest
from services.gateway.http.keys import PLUGIN_TOKENS, PLUGINS, REGISTRY, SOURCES
from services.gateway.http.routes import Answer, Json, Route, object_schema, plain_errors
from services.gateway.plugins.incoming import MAX_PACKAGE_BYTES, Incoming, check_size, incoming
from services.gateway.plugins.lifecycle import UNKNOWN
from services.gateway.plugins.manifest import Manifest
from services.gateway.plugins.numbers import altered_number
from services.gateway.plugins.states import Status
from services.gateway.plugins.store import Record
from shared.contracts.base import Contract
from shared.contracts.errors import RequestFailed
from shared.times import format_microseconds

FIELD = "package"
"""Name of the multipart field that holds the archive."""

_PART_BYTES = 256 << 10
_AROUND_BYTES = 64 << 10
"""What a multipart body may hold besides the archive."""


class PluginRecord(Manifest):
    """An installed plugin: its manifest, and how it stands.

    `generation`: microseconds since 1970 of this installation. `signed`: always false, signatures are not checked.
    """

    status: Status
    signed: bool
    generation: int
    installed_at: str
    updated_at: str
    last_error: str | None = None
    last_error_at: str | None = None


class InstallByUrl(Contract):
    """A package to fetch."""

    url: str


class NewConfig(Contract):
    """The plugin's settings, all of them. A secret that comes as its mask stays what it is."""

    config: dict[str, Any]  # Any: the plugin's schema says what it holds


async def list_plugins(request: web.Request) -> web.Response:
    """Every installed plugin, by id."""
    return encoded({"plugins": [_shown(record) for record in request.app[REGISTRY].all_installed()]})


async def get_plugin(request: web.Request) -> web.Response:
    """One installed plugin."""
    record = request.app[REGISTRY].installed(request.match_info["plugin_id"])
    if record is None:
        raise RequestFailed("not_found", UNKNOWN)
    return encoded(_shown(record))


async def install(request: web.Request) -> web.Response:
    """Installs or upgrades a plugin: an uploaded package, or one fetched by URL."""
    async with incoming() as package:
        if request.content_type == "multipart/form-data":
            await _upload(request, package)
        elif request.content_type == "application/json":
            wanted = read_as(InstallByUrl, object_in(await request.read()))
            await request.app[SOURCES].fetch(wanted.url, package.write)
        else:
            raise web.HTTPUnsupportedMediaType
        record, notes = await request.app[PLUGINS].install(await package.finish())
    body: Json = {"plugin": _shown(record)}
    manifest = Manifest.model_validate(record.manifest)
    if manifest.runtime is not None and (token := await request.app[PLUGIN_TOKENS].give(record.id)) is not None:
        body["token"] = token
    if unused := _unused(manifest):
        notes = (f"this host runs no plugin processes; not in effect: {', '.join(unused)}", *notes)
    if notes:
        body["warning"] = "; ".join(notes)
    return encoded(body, status=201)


async def enable(request: web.Request) -> web.Response:
    """Makes a plugin active."""
    await request.app[PLUGINS].enable(request.match_info["plugin_id"])
    return encoded({"enabled": True})


async def disable(request: web.Request) -> web.Response:
    """Takes a plugin out of use."""
    await request.app[PLUGINS].disable(request.match_info["plugin_id"])
    return encoded({"disabled": True})


async def remove(request: web.Request) -> web.Response:
    """Removes a plugin with everything of it."""
    await request.app[PLUGINS].remove(request.match_info["plugin_id"])
    return encoded({"deleted": True})


async def replace_token(request: web.Request) -> web.Response:
    """Gives a plugin's own process another token."""
    return encoded({"token": await request.app[PLUGIN_TOKENS].replace(request.match_info["plugin_id"])})


async def get_config(request: web.Request) -> web.Response:
    """The plugin's settings, secrets masked."""
    return encoded({"config": await request.app[PLUGINS].config(request.match_info["plugin_id"])})


async def set_config(request: web.Request) -> web.Response:
    """Replaces the plugin's settings."""
    body = await request.read()
    wanted = read_as(NewConfig, object_in(body))
    if altered := altered_number(body):
        raise BadRequest(altered)
    await request.app[PLUGINS].configure(request.match_info["plugin_id"], wanted.config)
    return encoded({"updated": True})


async def _upload(request: web.Request, package: Incoming) -> None:
    check_size((request.content_length or 0) - _AROUND_BYTES)
    try:
        async for part in await request.multipart():
            if isinstance(part, BodyPartReader) and part.name == FIELD:
                while chunk := await part.read_chunk(_PART_BYTES):
                    await package.write(chunk)
                return
    except (ValueError, aiohttp.ClientError, web.RequestPayloadError, ConnectionError):
        raise BadRequest("the upload is not a whole multipart body") from None
    raise BadRequest(f"the body has no field {FIELD!r} with the package")


def _shown(record: Record) -> Json:
    failed = record.last_error_at
    return {
        **record.manifest,
        "status": record.status,
        "signed": record.signed,
        "generation": record.installed_at,
        "installed_at": format_microseconds(record.installed_at),
        "updated_at": format_microseconds(record.updated_at),
        "last_error": record.last_error,
        "last_error_at": None if failed is None else format_microseconds(failed),
    }


def _unused(manifest: Manifest) -> list[str]:
    """What the manifest declares that only a process of the plugin could do."""
    declared = {
        "webhooks": manifest.webhooks,
        "actions": manifest.actions,
        "events": manifest.capabilities.events,
        "agent_tools": manifest.agent_tools,
        "auth_providers": manifest.auth_providers,
    }
    return [name for name, value in declared.items() if value]


_PLUGIN = "/api/plugins/{plugin_id}"
_TAG = "plugins"
_INSTALLED: Json = {
    "type": "object",
    "required": ["plugin"],
    "properties": {
        "plugin": PluginRecord.model_json_schema(),
        "warning": {"type": "string"},
        "token": {
            "type": "string",
            "description": "For Host RPC, shown this once: of a plugin with a process of its own that had none yet.",
        },
    },
}
_UPLOAD: Json = {
    "type": "object",
    "required": [FIELD],
    "properties": {FIELD: {"type": "string", "format": "binary", "description": f"At most {MAX_PACKAGE_BYTES} bytes."}},
}


def _done(word: str) -> Json:
    return object_schema(**{word: {"const": True}})


ROUTES = (
    Route(
        "GET",
        "/api/plugins",
        list_plugins,
        "The installed plugins",
        _TAG,
        (
            Answer(
                200,
                "Plugins by id, as this gateway knows them.",
                object_schema(plugins={"type": "array", "items": PluginRecord.model_json_schema()}),
            ),
        ),
    ),
    Route(
        "POST",
        "/api/plugins/install",
        install,
        "Install a plugin, or put another version in its place",
        _TAG,
        (
            Answer(
                201,
                "Installed; `warning` says what of it has no effect here, and what is probably misspelt.",
                _INSTALLED,
            ),
            *plain_errors(409, 415),
        ),
        "administrator",
        body=_UPLOAD,
        body_media_type="multipart/form-data",
        other_bodies={"application/json": InstallByUrl},
    ),
    Route("GET", _PLUGIN, get_plugin, "One plugin", _TAG, (Answer(200, "It.", PluginRecord), *plain_errors(404))),
    Route(
        "DELETE",
        _PLUGIN,
        remove,
        "Remove a plugin, its settings and what it keeps for users",
        _TAG,
        (Answer(200, "Removed.", _done("deleted")), *plain_errors(404)),
        "administrator",
    ),
    Route(
        "POST",
        _PLUGIN + "/enable",
        enable,
        "Make a plugin active",
        _TAG,
        (Answer(200, "Active.", _done("enabled")), *plain_errors(404, 409)),
        "administrator",
    ),
    Route(
        "POST",
        _PLUGIN + "/disable",
        disable,
        "Take a plugin out of use",
        _TAG,
        (Answer(200, "Disabled.", _done("disabled")), *plain_errors(404, 409)),
        "administrator",
    ),
    Route(
        "POST",
        _PLUGIN + "/token",
        replace_token,
        "Give a plugin's own process another token for Host RPC",
        _TAG,
        (
            Answer(
                200, "The token, shown this once. The earlier one has ended.", object_schema(token={"type": "string"})
            ),
            *plain_errors(404),
        ),
        "administrator",
    ),
    Route(
        "GET",
        _PLUGIN + "/config",
        get_config,
        "A plugin's settings, secrets masked",
        _TAG,
        (Answer(200, "The settings.", NewConfig), *plain_errors(404)),
        "administrator",
    ),
    Route(
        "PATCH",
        _PLUGIN + "/config",
        set_config,
        "Replace a plugin's settings",
        _TAG,
        (Answer(200, "Kept.", _done("updated")), *plain_errors(404)),
        "administrator",
        body=NewConfig,
    ),
)
