"""The actions `session.conversation.subscribe` and `session.conversation.unsubscribe`."""

from pydantic import ValidationError

from services.gateway.scopes.projection import View
from services.gateway.scopes.scope import Phase, Scope
from services.gateway.websocket.connection import Connection
from shared.contracts.errors import ErrorCode, RequestFailed, problem
from shared.contracts.wire import (
    PROTOCOL_VERSION,
    SUBSCRIBE_RETRYABLE,
    ClientMessage,
    Subscribe,
    Subscribed,
    SubscribeError,
    SubscribeErrorCode,
    SubscribeRefused,
    Unsubscribe,
    Unsubscribed,
)

MAX_SCOPES = 256
"""Open scopes of one connection."""

_CODES: dict[ErrorCode, SubscribeErrorCode] = {"not_found": "not_found", "limit_exceeded": "upstream_failure"}


async def subscribe(connection: Connection, request: ClientMessage) -> None:
    """Opens a scope; one of the same id on this connection is replaced, whether or not the new one opens (C7)."""
    try:
        scope = _scope(connection, request)
    except _Refused as refused:
        _refuse(connection, request, refused.code, str(refused))
        return
    try:
        await connection.hub.open(scope, lambda epoch, revision: _confirm(connection, request, scope, epoch, revision))
    except RequestFailed as failed:
        connection.forget(scope)
        code = _CODES.get(failed.failure.code, "upstream_failure")
        _refuse(connection, request, code, failed.failure.message)
    else:
        if scope.phase is Phase.CLOSED and connection.scopes.get(scope.id) is not scope:
            _refuse(connection, request, "invalid_request", "the subscription was replaced before it opened")


async def unsubscribe(connection: Connection, request: ClientMessage) -> None:
    """Closes a scope."""
    try:
        wanted = Unsubscribe.model_validate(request.payload)
    except ValidationError as error:
        _refuse(connection, request, "invalid_request", problem(error, "payload"))
        return
    scope = connection.scopes.get(wanted.scope_id)
    if scope is None or wanted.session_id not in {None, scope.session_id}:
        _refuse(connection, request, "invalid_request", "conversation subscription not found")
        return
    connection.forget(scope)
    connection.hub.close(scope)
    connection.respond(request, Unsubscribed(scope_id=scope.id, session_id=scope.session_id))


class _Refused(Exception):
    def __init__(self, code: SubscribeErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def _scope(connection: Connection, request: ClientMessage) -> Scope:
    """Takes a request's place among the connection's scopes."""
    try:
        wanted = Subscribe.model_validate(request.payload)
    except ValidationError as error:
        raise _Refused("invalid_request", problem(error, "payload")) from error
    if (objection := _objection(wanted)) is not None:
        raise _Refused("invalid_request", objection)
    if (earlier := connection.scopes.pop(wanted.scope_id, None)) is not None:
        connection.hub.close(earlier)
    if len(connection.scopes) >= MAX_SCOPES:
        raise _Refused("limit_exceeded", f"a connection may have {MAX_SCOPES} scopes")
    view = View(wanted.session_id, wanted.task_id, frozenset(wanted.authors))
    scope = Scope(id=wanted.scope_id, view=view, identity=connection.caller.identity, consumer=connection)
    connection.scopes[scope.id] = scope
    return scope


def _confirm(connection: Connection, request: ClientMessage, scope: Scope, epoch: str, revision: int) -> None:
    subscribed = Subscribed(scope_id=scope.id, session_id=scope.session_id, epoch=epoch, revision=str(revision))
    connection.respond(request, subscribed)


def _objection(wanted: Subscribe) -> str | None:
    if wanted.protocol_version != PROTOCOL_VERSION:
        return f"protocol_version must be {PROTOCOL_VERSION}"
    if wanted.consumer_kind == "plugin":
        return "plugin consumers are not served here"
    if wanted.plugin_id is not None or wanted.generation is not None or wanted.binding_token is not None:
        return "a core consumer names no plugin, generation or binding"
    if len(set(wanted.authors)) != len(wanted.authors):
        return "authors names an author twice"
    return None


def _refuse(connection: Connection, request: ClientMessage, code: SubscribeErrorCode, message: str) -> None:
    session_id = request.payload.get("session_id")
    error = SubscribeError(code=code, message=message, retryable=code in SUBSCRIBE_RETRYABLE)
    refused = SubscribeRefused(error=error, session_id=session_id if isinstance(session_id, str) else None)
    connection.respond(request, refused)
