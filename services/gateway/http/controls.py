"""Transition controls: changes that a test makes in one call, each answered once this gateway has told its scopes.

Served only where the setting `KANDEV_TEST_CONTROLS` says so; elsewhere these paths are not there.
"""

import asyncio
import re
from collections.abc import Iterable

from aiohttp import web
from aiohttp.typedefs import Handler

from services.gateway.http.bodies import object_of, refuse_unknown
from services.gateway.http.errors import BadRequest
from services.gateway.http.keys import HUB, IDENTITY, SOURCE
from services.gateway.http.routes import Answer, Json, Method, Route, typed_errors
from services.gateway.http.writers import COMMITTED, body_of, command_of, committed, fields_of
from services.gateway.scopes.scope import Phase, Scope
from shared.contracts.commands import CommandResult, CompleteTurn, DeleteMessage, UpdateMessage
from shared.contracts.errors import RequestFailed
from shared.contracts.reads import Around, MessagesPage
from shared.times import EARLIEST_TEXT, format_time, parse_time

_RFC_3339 = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII | re.IGNORECASE)
_GUARDS = ("expected_updated_at", "expected_revision")
_PREFIX = "/api/v1/test-controls/task-sessions/{session_id}"
_MESSAGE = _PREFIX + "/messages/{message_id}"
_COMPLETE = _PREFIX + "/turns/{turn_id}/complete"
_PATCHED, _COMPLETED = fields_of(UpdateMessage, _MESSAGE), fields_of(CompleteTurn, _COMPLETE)


async def patch_message(request: web.Request) -> web.StreamResponse:
    """Replaces fields of a message. Without a guard, it is guarded by the row as it stands now."""
    fields, path = await object_of(request), request.match_info
    if all(fields.get(name) is None for name in _GUARDS):
        command = command_of(UpdateMessage, {**fields, "expected_updated_at": EARLIEST_TEXT}, path, _PATCHED)
        command = command.model_copy(update={"expected_updated_at": await _updated_at(request, command)})
    else:
        command = command_of(UpdateMessage, fields, path, _PATCHED)
    return await _delivered(request, command)


async def delete_message(request: web.Request) -> web.StreamResponse:
    """Deletes a message."""
    return await _delivered(request, command_of(DeleteMessage, {}, request.match_info, {}))


async def complete_turn(request: web.Request) -> web.StreamResponse:
    """Completes a turn at the time that is given."""
    fields = await object_of(request)
    refuse_unknown(fields, _COMPLETED)
    fields["completed_at"] = floored(fields.get("completed_at"))
    return await _delivered(request, command_of(CompleteTurn, fields, request.match_info, _COMPLETED))


def floored(text: object) -> str:
    """An RFC 3339 time of any offset and precision as the source keeps times: UTC, to the microsecond at or before it.

    Raises RequestFailed.
    """
    match = _RFC_3339.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise BadRequest("completed_at must be an RFC 3339 time, such as 2026-01-31T12:00:00.123456789+01:00")
    day_and_time, fraction, zone = match.groups()
    try:
        return format_time(parse_time(f"{day_and_time}{(fraction or '')[:7]}{zone}"))
    except ValueError:
        raise BadRequest("completed_at names a day or hour that does not exist") from None


async def _updated_at(request: web.Request, command: UpdateMessage) -> str:
    page = MessagesPage(
        identity=request[IDENTITY], session_id=command.session_id, limit=1, position=Around(row=command.message_id)
    )
    answer = await request.app[SOURCE].messages(page)
    return answer.rows[0].updated_at


async def _delivered(request: web.Request, command: UpdateMessage | DeleteMessage | CompleteTurn) -> web.StreamResponse:
    """Carries out a command, and answers once this gateway has told what it did; where that had been done before, once
    every scope was told of it.
    """
    source, hub = request.app[SOURCE], request.app[HUB]
    with hub.deliveries.of(command.session_id) as delivery:
        result = await source.command(request[IDENTITY], command)
        try:
            async with asyncio.timeout(source.timeout):
                if result.revision == result.base_revision:
                    hub.flush(command.session_id)
                    await delivery.until(lambda: _is_told(hub.scopes_of(command.session_id), result))
                else:
                    await delivery.of(result.revision)
        except TimeoutError:
            raise RequestFailed(
                "unavailable",
                "the change is committed; its receipt has not reached this gateway in time",
                committed=True,
                epoch=result.epoch,
                revision=str(result.revision),
            ) from None
    return committed(result)


def _is_told(scopes: Iterable[Scope], result: CommandResult) -> bool:
    """Whether no scope is owed the revision. One that is not live is told it by reading again, or nothing any more."""
    return all(
        (scope.epoch == result.epoch and scope.sent >= result.revision) for scope in scopes if scope.phase is Phase.LIVE
    )


_COMPLETION: Json = {
    "type": "object",
    "required": ["completed_at"],
    "properties": {"completed_at": {"type": "string", "format": "date-time"}},
    "additionalProperties": False,
}


def _route(method: Method, path: str, handler: Handler, summary: str, body: Json | None) -> Route:
    answers = (Answer(200, "Committed, and told to this gateway's scopes.", COMMITTED), *typed_errors(404, 409, 429))
    required = bool(body and body["required"])
    return Route(
        method, path, handler, summary, "test controls", answers, form="typed", body=body, body_required=required
    )


ROUTES = (
    _route("PATCH", _MESSAGE, patch_message, "Replace fields of a message", body_of(UpdateMessage, _MESSAGE)),
    _route("DELETE", _MESSAGE, delete_message, "Delete a message", None),
    _route("POST", _COMPLETE, complete_turn, "Complete a turn at a given time", _COMPLETION),
)
