"""What first-party actions share: how payloads are read, and how failures are told."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from services.gateway.websocket.connection import Action, Connection
from shared.contracts.base import Contract
from shared.contracts.errors import ErrorCode, Failure, RequestFailed, problem
from shared.contracts.wire import ClientMessage, RequestErrorCode

ORDERED_STREAM_FIELDS = frozenset(
    {"consumer_kind", "consumer_id", "snapshot_token", "resume_token", "event_watermark", "replace_cursor"}
)
"""Fields of the acknowledged event stream that older clients know. Whoever sends one expects an order and a replay that
these actions do not have, and is told so instead of being served less.
"""

CODES: Mapping[ErrorCode, RequestErrorCode] = {
    "not_found": "NOT_FOUND",
    "invalid_query": "VALIDATION_ERROR",
    "invalid_cursor": "VALIDATION_ERROR",
    "too_large": "VALIDATION_ERROR",
    "conflict": "CONFLICT",
    "unauthenticated": "UNAUTHORIZED",
    "forbidden": "FORBIDDEN",
}
"""How failures are named on the socket. Any other is the gateway's own, `INTERNAL_ERROR`."""

Json = dict[str, Any]  # Any: replies hold metadata, which is whatever JSON its writer chose
Answering = Callable[[Connection, ClientMessage], Awaitable[Json | None]]
"""Makes the payload of a reply; `None` where it has replied by itself."""

_PayloadT = TypeVar("_PayloadT", bound=Contract)


class Refused(Exception):
    """An action refuses a request. `details` holds what a program needs to go on."""

    def __init__(self, code: RequestErrorCode, message: str, details: Json | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.details = details


def answered(answer: Answering, failing: str, codes: Mapping[ErrorCode, RequestErrorCode] = CODES) -> Action:
    """An action that replies with what `answer` returns, or with an error.

    `failing`: what is said where the gateway itself could not do it; `details.retryable` tells whether asking again may
    help.
    """

    async def act(connection: Connection, request: ClientMessage) -> None:
        try:
            _refuse_ordered_stream(request)
            reply = await answer(connection, request)
            if reply is not None:
                connection.respond(request, reply)
        except Refused as refused:
            connection.refuse(request, refused.code, str(refused), refused.details)
        except RequestFailed as failed:
            _tell(connection, request, failed.failure, failing, codes)

    return act


def payload_of(request: ClientMessage, form: type[_PayloadT]) -> _PayloadT:
    """The payload, each field of its JSON type; `null` counts as absent. Raises Refused."""
    given = {name: value for name, value in request.payload.items() if value is not None}
    try:
        return form.model_validate(given, strict=True)
    except ValidationError as error:
        raise Refused("BAD_REQUEST", problem(error, "payload")) from None


def _refuse_ordered_stream(request: ClientMessage) -> None:
    fields = sorted(ORDERED_STREAM_FIELDS & request.payload.keys())
    if fields:
        message = f"unsupported protocol: {request.action} knows no ordered stream; leave out {', '.join(fields)}"
        raise Refused("BAD_REQUEST", message, {"reason": "unsupported_protocol", "fields": fields})


def _tell(
    connection: Connection,
    request: ClientMessage,
    failure: Failure,
    failing: str,
    codes: Mapping[ErrorCode, RequestErrorCode],
) -> None:
    code = codes.get(failure.code)
    if code is None:
        connection.refuse(request, "INTERNAL_ERROR", failing, {"retryable": failure.retryable})
    elif failure.code == "not_found":
        connection.refuse(request, code, "not found")
    else:
        connection.refuse(request, code, failure.message)
