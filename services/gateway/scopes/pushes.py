"""Session pushes: one event per changed row, for clients that follow a session without revisions.

They are made from the receipts that conversation scopes are told, and a subscription is a scope: opened, authorised,
checked and ended like any other. What differs is what its client hears. Pushes are best effort: a receipt that does not
name its rows, and whatever a full connection has no room for, leaves no push and no gap that a client could see.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from services.gateway.scopes.projection import View
from services.gateway.scopes.rows import core_message, core_turn
from services.gateway.scopes.scope import Phase, Scope
from services.gateway.websocket.framing import framed
from shared.contracts.receipts import ChangeReceipt, Operation
from shared.contracts.rows import MessageRow, TurnRow
from shared.contracts.wire import (
    MESSAGE_ADDED,
    MESSAGE_DELETED,
    MESSAGE_UPDATED,
    TURN_COMPLETED,
    TURN_STARTED,
)

Json = dict[str, Any]  # Any: payloads hold metadata, which is whatever JSON its writer chose


@dataclass(frozen=True, slots=True)
class PushView(View):
    """The whole session, told as pushes. Never equal to a view that is told as frames."""


@dataclass(eq=False, slots=True)
class PushScope(Scope):
    """A subscription whose client knows no frames: of resets, checks and its end it hears nothing. That its session is
    gone it hears by `session.removed`, like every connection.
    """

    def push(self, receipt: ChangeReceipt, events: Iterable[bytes]) -> None:
        """Sends a receipt's events, as WebSocket frames, once, whichever leader's copy comes first."""
        if receipt.revision > self.sent:
            self.sent = receipt.revision
            for event in events:
                self.offer(event, self)

    def tell_check(self, revision: int) -> None:
        """Nothing: there is no revision that the client could compare."""

    def tell_reset(self) -> None:
        """Nothing: there is no state that the client could know to be stale."""

    def lose_backlog(self) -> None:
        """Nothing: pushes go on with what comes."""

    def end(self) -> None:
        """Closes."""
        self.close()


def push(scopes: Iterable[Scope], receipt: ChangeReceipt) -> None:
    """Tells live scopes what the receipt changed."""
    events = tuple(map(framed, events_of(receipt)))
    for scope in scopes:
        if isinstance(scope, PushScope) and scope.phase is Phase.LIVE:
            scope.push(receipt, events)


def events_of(receipt: ChangeReceipt) -> Iterator[bytes]:
    """The notifications of a receipt, in its order. None for one that does not name its rows."""
    for operation in receipt.operations if receipt.complete else ():
        for action, payload in _events(operation, receipt.session_id):
            yield orjson.dumps({"type": "notification", "action": action, "payload": payload})


def _events(operation: Operation, session_id: str) -> Iterator[tuple[str, Json]]:
    """A row that comes from another session is added here; one that goes there is deleted here."""
    previous = operation.previous
    is_new = previous is None or previous.session_id != session_id
    if operation.kind == "remove":
        if operation.entity == "message":
            yield MESSAGE_DELETED, _deleted(operation, session_id)
    elif operation.message is not None:
        yield MESSAGE_ADDED if is_new else MESSAGE_UPDATED, message_event(operation.message)
    elif operation.turn is not None:
        if is_new:
            yield TURN_STARTED, turn_event(operation.turn)
        if operation.turn.completed_at is not None:
            yield TURN_COMPLETED, turn_event(operation.turn)


def message_event(row: MessageRow) -> Json:
    """A message as pushes carry it: the id as `message_id`, and the plain columns always there."""
    message = core_message(row)
    return {
        "message_id": message.pop("id"),
        **message,
        "task_id": row.task_id or "",
        "turn_id": row.turn_id or "",
        "author_id": row.author_id,
        "type": row.type or "message",
    }


def turn_event(row: TurnRow) -> Json:
    """A turn as pushes carry it: its columns always there."""
    return {
        **core_turn(row),
        "task_id": row.task_id or "",
        "execution_profile_id": row.execution_profile_id or "",
        "route_generation": row.route_generation,
        "completed_at": row.completed_at,
    }


def _deleted(operation: Operation, session_id: str) -> Json:
    """What the log still knows of a deleted message: where it stood and who wrote it."""
    payload: Json = {"message_id": operation.id, "session_id": session_id}
    if (previous := operation.previous) is not None:
        payload |= {"task_id": previous.task_id or "", "author_type": previous.author_type}
    return payload
