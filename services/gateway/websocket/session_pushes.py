"""The actions by which a client follows a session without revisions, and tells which one it shows."""

from collections.abc import Mapping

from services.gateway.pages import session_named
from services.gateway.scopes.hub import Hub
from services.gateway.scopes.pushes import PushScope, PushView
from services.gateway.scopes.scope import Phase
from services.gateway.source.requests import Source
from services.gateway.websocket.connection import Action, Connection
from services.gateway.websocket.requests import CODES, Json, Refused, answered, payload_of
from shared.contracts.base import Contract
from shared.contracts.errors import RequestFailed
from shared.contracts.wire import (
    SESSION_FOCUS,
    SESSION_SUBSCRIBE,
    SESSION_UNFOCUS,
    SESSION_UNSUBSCRIBE,
    ClientMessage,
)


class NamedSession(Contract):
    """Payload of every action here."""

    session_id: str = ""


class SessionPushes:
    """Opens and closes push scopes. Each stands among its connection's scopes and counts like any other."""

    def __init__(self, source: Source, hub: Hub) -> None:
        self._source = source
        self._hub = hub

    def actions(self) -> Mapping[str, Action]:
        """By name. A topic that cannot be subscribed is `FORBIDDEN`, whether or not there is such a session."""
        return {
            SESSION_SUBSCRIBE: answered(self._subscribe, "Failed to subscribe", {**CODES, "not_found": "FORBIDDEN"}),
            SESSION_UNSUBSCRIBE: answered(self._unsubscribe, "Failed to unsubscribe"),
            SESSION_FOCUS: answered(self._look, "Failed to focus"),
            SESSION_UNFOCUS: answered(self._look, "Failed to unfocus"),
        }

    async def _subscribe(self, connection: Connection, request: ClientMessage) -> Json | None:
        """Replies, and from then on pushes what is committed. Subscribing again changes nothing."""
        session_id = _session(request)
        scope_id = _scope_id(session_id)
        if (earlier := connection.scopes.get(scope_id)) is not None:
            if earlier.phase in {Phase.LIVE, Phase.AWAITING_RESET}:
                return _done(session_id)
            connection.forget(earlier)
            self._hub.close(earlier)
        scope = PushScope(
            id=scope_id, view=PushView(session_id), identity=connection.caller.identity, consumer=connection
        )
        try:
            connection.hold(scope)
        except RequestFailed as failed:
            raise Refused("BAD_REQUEST", failed.failure.message) from None
        try:
            await self._hub.open(scope, lambda _start, _resumed: connection.respond(request, _done(session_id)))
        except RequestFailed:
            connection.forget(scope)
            raise
        if not scope.has_opened:
            raise Refused("BAD_REQUEST", "the subscription was replaced before it opened")
        return None

    async def _unsubscribe(self, connection: Connection, request: ClientMessage) -> Json:
        """Ends the pushes."""
        session_id = _session(request)
        scope = connection.scopes.get(_scope_id(session_id))
        if scope is None:
            raise Refused("NOT_FOUND", "not found")
        connection.forget(scope)
        self._hub.close(scope)
        return _done(session_id)

    async def _look(self, connection: Connection, request: ClientMessage) -> Json:
        """Takes note of which session the client shows: nothing here depends on it, so it is only acknowledged."""
        session_id = _session(request)
        answer = await self._source.revision(connection.caller.identity, session_id)
        if session_id not in answer.revisions:
            raise Refused("NOT_FOUND", "not found")
        return _done(session_id)


def _session(request: ClientMessage) -> str:
    session_id = payload_of(request, NamedSession).session_id
    if not session_id.strip():
        raise Refused("VALIDATION_ERROR", "session_id is required")
    return session_named(session_id)


def _scope_id(session_id: str) -> str:
    """An id among the connection's scopes that no client can name: theirs hold no control characters."""
    return f"\x00{session_id}"


def _done(session_id: str) -> Json:
    return {"success": True, "session_id": session_id}
