"""The actions `session.conversation.subscribe` and `session.conversation.unsubscribe`."""

from collections.abc import Mapping

from pydantic import ValidationError

from services.gateway.metrics import SUBSCRIPTIONS
from services.gateway.scopes.grants import Grants, Refused
from services.gateway.scopes.hub import Hub
from services.gateway.scopes.projection import EVERYBODY, View
from services.gateway.scopes.resuming import Position
from services.gateway.scopes.scope import Grant, Phase, Scope
from services.gateway.websocket.connection import Action, Connection
from shared.contracts.errors import ErrorCode, RequestFailed, problem
from shared.contracts.wire import (
    PROTOCOL_VERSION,
    SUBSCRIBE,
    SUBSCRIBE_RETRYABLE,
    UNSUBSCRIBE,
    ClientMessage,
    Subscribe,
    Subscribed,
    SubscribeError,
    SubscribeErrorCode,
    SubscribeRefused,
    Unsubscribe,
    Unsubscribed,
)

_CODES: Mapping[ErrorCode, SubscribeErrorCode] = {"not_found": "not_found"}


class Subscriptions:
    """Opens and closes scopes for first-party consumers and plugins."""

    def __init__(self, hub: Hub, grants: Grants) -> None:
        self._hub = hub
        self._grants = grants

    def actions(self) -> Mapping[str, Action]:
        """What clients may ask here, by name."""
        return {SUBSCRIBE: self.subscribe, UNSUBSCRIBE: self.unsubscribe}

    async def subscribe(self, connection: Connection, request: ClientMessage) -> None:
        """Opens a scope; one of the same id on this connection is replaced, whether or not the new one opens (C7)."""
        try:
            wanted = _read(request)
            scope = self._take_place(connection, wanted)
        except Refused as refused:
            SUBSCRIPTIONS.labels("refused").inc()
            _refuse(connection, request, refused.code, str(refused))
            return
        try:
            await self._open(connection, request, wanted, scope)
        except Refused as refused:
            SUBSCRIPTIONS.labels("refused").inc()
            self._give_up(connection, scope)
            _refuse(connection, request, refused.code, str(refused))
        except RequestFailed as failed:
            SUBSCRIPTIONS.labels("refused").inc()
            self._give_up(connection, scope)
            code = _CODES.get(failed.failure.code, "upstream_failure")
            _refuse(connection, request, code, failed.failure.message)

    async def unsubscribe(self, connection: Connection, request: ClientMessage) -> None:
        """Closes a scope. Whose it is need not be said: it is one of this connection's."""
        try:
            wanted = Unsubscribe.model_validate(request.payload)
        except ValidationError as error:
            _refuse(connection, request, "invalid_request", problem(error, "payload"))
            return
        scope = connection.scopes.get(wanted.scope_id)
        if scope is None or wanted.session_id not in {None, scope.session_id}:
            _refuse(connection, request, "invalid_request", "conversation subscription not found")
            return
        self._give_up(connection, scope)
        connection.respond(request, Unsubscribed(scope_id=scope.id, session_id=scope.session_id))

    def _take_place(self, connection: Connection, wanted: Subscribe) -> Scope:
        """Takes a request's place among the connection's scopes, in the order in which requests came."""
        if (earlier := connection.scopes.get(wanted.scope_id)) is not None:
            self._give_up(connection, earlier)
        scope = Scope(
            id=wanted.scope_id,
            view=View(wanted.session_id, wanted.task_id, frozenset(wanted.authors) or EVERYBODY, wanted.consumer_kind),
            identity=connection.caller.identity,
            consumer=connection,
            grant=_grant(wanted),
        )
        try:
            connection.hold(scope)
        except RequestFailed as failed:
            raise Refused("limit_exceeded", failed.failure.message) from None
        return scope

    async def _open(self, connection: Connection, request: ClientMessage, wanted: Subscribe, scope: Scope) -> None:
        if scope.grant is not None and wanted.binding_token is not None:
            await self._grants.admit(connection.caller, scope.grant, wanted.binding_token)

        def confirm(start: Position, resumed: bool) -> None:
            """Nothing can happen between this and the scope's first frame: what holds now held when it opened."""
            if scope.grant is not None:
                self._grants.require(scope.grant)
                if wanted.task_id not in {None, scope.task_id}:
                    raise Refused("invalid_request", "task_id does not match the task session")
            subscribed = Subscribed(
                scope_id=scope.id,
                session_id=scope.session_id,
                epoch=start.epoch,
                revision=str(start.revision),
                resumed=None if wanted.resume is None else resumed,
            )
            connection.respond(request, subscribed)
            SUBSCRIPTIONS.labels(_outcome(wanted, resumed)).inc()

        if scope.phase is not Phase.CLOSED:
            await self._hub.open(scope, confirm, _held(wanted))
        if scope.phase is Phase.CLOSED and connection.scopes.get(scope.id) is not scope:
            raise Refused("invalid_request", "the subscription was replaced before it opened")

    def _give_up(self, connection: Connection, scope: Scope) -> None:
        connection.forget(scope)
        self._hub.close(scope)


def _read(request: ClientMessage) -> Subscribe:
    """The request, if it is one that could be granted. Raises Refused."""
    try:
        wanted = Subscribe.model_validate(request.payload)
    except ValidationError as error:
        raise Refused("invalid_request", problem(error, "payload")) from error
    if (objection := _objection(wanted)) is not None:
        raise Refused("invalid_request", objection)
    return wanted


def _objection(wanted: Subscribe) -> str | None:
    if wanted.protocol_version != PROTOCOL_VERSION:
        return f"protocol_version must be {PROTOCOL_VERSION}"
    if wanted.managed_conversation_token is not None:
        return "managed conversations are not supported"
    plugin = (wanted.plugin_id, wanted.generation, wanted.binding_token)
    if wanted.consumer_kind == "core" and any(given is not None for given in plugin):
        return "a core consumer names no plugin, generation or binding"
    if wanted.consumer_kind == "plugin" and any(given is None for given in plugin):
        return "a plugin consumer names its plugin_id, generation and binding_token"
    if len(set(wanted.authors)) != len(wanted.authors):
        return "authors names an author twice"
    return None


def _grant(wanted: Subscribe) -> Grant | None:
    if wanted.plugin_id is None or wanted.generation is None:
        return None
    return Grant(wanted.plugin_id, wanted.generation)


def _outcome(wanted: Subscribe, resumed: bool) -> str:
    if wanted.resume is None:
        return "opened"
    return "resumed" if resumed else "not_resumed"


def _held(wanted: Subscribe) -> Position | None:
    return None if wanted.resume is None else Position(wanted.resume.epoch, int(wanted.resume.revision))


def _refuse(connection: Connection, request: ClientMessage, code: SubscribeErrorCode, message: str) -> None:
    session_id = request.payload.get("session_id")
    error = SubscribeError(code=code, message=message, retryable=code in SUBSCRIBE_RETRYABLE)
    refused = SubscribeRefused(error=error, session_id=session_id if isinstance(session_id, str) else None)
    connection.respond(request, refused)
