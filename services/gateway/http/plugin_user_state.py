"""What a plugin keeps for the user who calls: small JSON values by scope and key."""

import re
from typing import Annotated, Any, Final

import orjson
from aiohttp import web
from pydantic import AfterValidator, StringConstraints

from services.gateway.http.bodies import bounded, encoded, object_in, read_as
from services.gateway.http.errors import BadRequest
from services.gateway.http.keys import CALLER, CONTROL, REGISTRY, USER_STATE
from services.gateway.http.queries import require_storable
from services.gateway.http.routes import Answer, Json, Parameter, Route, object_schema, plain_errors
from services.gateway.plugins.numbers import altered_number
from services.gateway.plugins.user_state import (
    MOST_BYTES,
    MOST_ENTRIES,
    Entry,
    Full,
    Place,
    PluginGone,
    Stale,
    TooLarge,
)
from shared.contracts.base import Contract
from shared.contracts.control import UserStateChanged
from shared.contracts.errors import RequestFailed
from shared.metadata import within_depth
from shared.times import format_microseconds, microseconds

MAX_BODY_BYTES = 256 << 10
"""Largest body of one write."""

SCOPES: Final = ("instance", "workspace", "task", "session", "repository")

NAME: Final = "^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$"
"""Form of a scope's id and of a key."""

_NAME = re.compile(NAME.removesuffix("$") + r"\Z")

Writer = Annotated[str, StringConstraints(max_length=255)]


def _is_time(text: str) -> str:
    microseconds(text)
    return text


def _is_shallow(value: Any) -> Any:
    within_depth({"value": value})
    return value


class UserStateWrite(Contract):
    """A value to keep.

    `writerId`: comes back in the notification, so that a writer knows its own change. `ifUnmodifiedSince`: the
    `updatedAt` that the writer has seen; 409 if the entry was changed since, or is gone.
    """

    value: Annotated[Any, AfterValidator(_is_shallow)]  # Any: whatever JSON the plugin chose
    writerId: Writer | None = None  # noqa: N815 - as on the wire
    ifUnmodifiedSince: Annotated[str, AfterValidator(_is_time)] | None = None  # noqa: N815 - as on the wire


async def get_entry(request: web.Request) -> web.Response:
    """One value."""
    place, key = _place(request), _key(request)
    entry = await request.app[USER_STATE].get(place, key)
    if entry is None:
        raise RequestFailed("not_found", "nothing is kept under this key")
    return encoded({"value": orjson.Fragment(entry.value), "updatedAt": format_microseconds(entry.updated_at)})


async def list_entries(request: web.Request) -> web.Response:
    """Every value of a scope, by key."""
    place = _place(request)
    async with request.app[USER_STATE].listed(place) as entries:
        return encoded({"entries": [_listed(entry) for entry in entries]})


async def put_entry(request: web.Request) -> web.Response:
    """Keeps a value."""
    place, key = _place(request), _key(request)
    write = await _write(request)
    since = None if write.ifUnmodifiedSince is None else microseconds(write.ifUnmodifiedSince)
    try:
        updated = await request.app[USER_STATE].put(place, key, orjson.dumps(write.value).decode(), since)
    except Stale:
        raise RequestFailed("conflict", "the entry was changed since ifUnmodifiedSince; read it again") from None
    except Full:
        raise RequestFailed(
            "conflict",
            f"the plugin keeps {MOST_ENTRIES:,} values in this scope, the most there may be: delete one first",
        ) from None
    except TooLarge:
        raise RequestFailed(
            "too_large",
            f"with this the plugin would keep more than {MOST_BYTES:,} bytes for this user: delete some first",
        ) from None
    except PluginGone:
        raise RequestFailed("not_found", _UNKNOWN) from None
    await _announce(request, place, key, updated, write.writerId)
    return encoded({"updatedAt": format_microseconds(updated)})


async def delete_entry(request: web.Request) -> web.Response:
    """Forgets a value. One that is not there counts as forgotten, and nobody is notified."""
    place, key = _place(request), _key(request)
    writer = request.query.get("writerId") or None
    if writer is not None and len(writer) > 255:
        raise BadRequest("writerId is longer than 255 characters")
    deleted = await request.app[USER_STATE].delete(place, key)
    if deleted is not None:
        await _announce(request, place, key, deleted, writer, deleted=True)
    return encoded({"deleted": True})


async def _announce(
    request: web.Request, place: Place, key: str, moment: int, writer: str | None, *, deleted: bool = False
) -> None:
    await request.app[CONTROL].announce(
        UserStateChanged(
            user=place.user,
            plugin_id=place.plugin_id,
            scope=place.scope,
            scope_id=place.scope_id,
            key=key,
            updated_at=format_microseconds(moment),
            writer_id=writer,
            deleted=deleted,
        )
    )


_UNKNOWN = "there is no such plugin, or it is not active"


def _place(request: web.Request) -> Place:
    """Where the caller's values of this plugin and scope are. The plugin comes first: what is wrong with the rest of a
    request is said only where there is something to ask.
    """
    plugin_id, scope, scope_id = (request.match_info[name] for name in ("plugin_id", "scope", "scope_id"))
    plugin = request.app[REGISTRY].active(plugin_id)
    if plugin is None:
        raise RequestFailed("not_found", _UNKNOWN)
    if not plugin.user_state:
        raise RequestFailed("forbidden", "the plugin's manifest does not declare the capability user_state")
    require_storable(request)
    if scope not in SCOPES:
        raise BadRequest(f"the scope is not one of {', '.join(SCOPES)}")
    return Place(plugin.id, request[CALLER].identity.user, scope, _named(scope_id, "the scope's id"))


def _key(request: web.Request) -> str:
    return _named(request.match_info["key"], "the key")


def _named(text: str, what: str) -> str:
    if _NAME.match(text) is None:
        raise BadRequest(f"{what} must match {NAME}")
    return text


async def _write(request: web.Request) -> UserStateWrite:
    body = await bounded(request, MAX_BODY_BYTES)
    # First: the JSON reader does not take the largest of these numbers at all.
    if altered := altered_number(body):
        raise BadRequest(altered)
    return read_as(UserStateWrite, object_in(body))


def _listed(entry: Entry) -> dict[str, object]:
    return {
        "key": entry.key,
        "value": orjson.Fragment(entry.value),
        "updatedAt": format_microseconds(entry.updated_at),
    }


_NAMED: Json = {"type": "string", "pattern": NAME}
_PATH = (
    Parameter("scope", "What the values belong to.", "path", {"type": "string", "enum": list(SCOPES)}, required=True),
    Parameter("scope_id", "Which workspace, task, ...; any fixed name for `instance`.", "path", _NAMED, required=True),
)
_KEY_PATH = (*_PATH, Parameter("key", "Name of one value.", "path", _NAMED, required=True))
_UPDATED: Json = {"type": "string", "format": "date-time"}


_SCOPE = "/api/plugins/{plugin_id}/user-state/{scope}/{scope_id}"
_ENTRY = _SCOPE + "/{key}"
_TAG = "plugin user state"

ROUTES = (
    Route(
        "GET",
        _SCOPE,
        list_entries,
        "The caller's values of one scope",
        _TAG,
        (
            Answer(
                200,
                "Values by key.",
                object_schema(
                    entries={"type": "array", "items": object_schema(key=_NAMED, value={}, updatedAt=_UPDATED)}
                ),
            ),
            *plain_errors(404),
        ),
        parameters=_PATH,
        orders_checks=True,
    ),
    Route(
        "GET",
        _ENTRY,
        get_entry,
        "One of the caller's values",
        _TAG,
        (Answer(200, "The value as JSON.", object_schema(value={}, updatedAt=_UPDATED)), *plain_errors(404)),
        parameters=_KEY_PATH,
        orders_checks=True,
    ),
    Route(
        "PUT",
        _ENTRY,
        put_entry,
        "Keep a value for the caller",
        _TAG,
        (Answer(200, "Kept.", object_schema(updatedAt=_UPDATED)), *plain_errors(404, 409)),
        parameters=_KEY_PATH,
        orders_checks=True,
        body=UserStateWrite,
    ),
    Route(
        "DELETE",
        _ENTRY,
        delete_entry,
        "Forget one of the caller's values",
        _TAG,
        (Answer(200, "It is not there any more.", object_schema(deleted={"type": "boolean"})), *plain_errors(404)),
        parameters=(*_KEY_PATH, Parameter("writerId", "Comes back in the notification.")),
        orders_checks=True,
    ),
)
