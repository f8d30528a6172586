"""How errors look over HTTP."""

from collections.abc import Mapping
from typing import Any, Literal

from aiohttp import web

from shared.contracts.base import Contract
from shared.contracts.errors import ErrorCode, Failure, RequestFailed

STATUS: Mapping[ErrorCode, int] = {
    "not_found": 404,
    "invalid_query": 400,
    "invalid_cursor": 400,
    "reconciliation_required": 409,
    "conflict": 409,
    "behind": 503,
    "unavailable": 503,
    "limit_exceeded": 429,
    "unauthenticated": 401,
    "forbidden": 403,
    "upstream_failure": 500,
    "too_large": 413,
}

RETRY_AFTER_SECONDS = 1
"""When to ask again where nothing better is known; `retry_after` among a failure's details says it better."""


class PlainError(Contract):
    """The form of the first-party reads."""

    error: str


class TypedErrorBody(Contract):
    """What went wrong, for people and programs. `retryable`: the same request may succeed when it is asked again."""

    code: str
    message: str
    retryable: bool
    details: dict[str, Any] = {}  # what a program needs to go on, such as the true length of a message


class TypedError(Contract):
    """The form of the writers' and the plugins' routes."""

    error: TypedErrorBody


class ConciseErrorBody(Contract):
    """A `TypedErrorBody` without details."""

    code: str
    message: str
    retryable: bool


class ConciseError(Contract):
    """The form of the routes on which plugins read conversations."""

    error: ConciseErrorBody


class BadRequest(RequestFailed):
    """A request that cannot be used as given."""

    def __init__(self, message: str) -> None:
        super().__init__("invalid_query", message)


Form = Literal["plain", "typed", "concise"]
"""How a route tells an error: with a sentence alone; with a code for programs and details; with a code alone."""


def told(failure: Failure, form: Form) -> web.Response:
    """The failure in the form of a route."""
    match form:
        case "plain":
            return plain(failure)
        case "typed":
            return typed(failure)
        case "concise":
            return concise(failure)


def plain(failure: Failure) -> web.Response:
    """The form of the first-party reads: `{"error": "<sentence>"}`."""
    return _response(failure, {"error": failure.message})


def typed(failure: Failure) -> web.Response:
    """The form of the writers' routes: code, sentence, whether to ask again, and details for programs."""
    error = {
        "code": failure.code,
        "message": failure.message,
        "retryable": failure.retryable,
        "details": failure.details,
    }
    return _response(failure, {"error": error})


def concise(failure: Failure) -> web.Response:
    """The form of the routes on which plugins read conversations: code, sentence, whether to ask again."""
    error = {"code": failure.code, "message": failure.message, "retryable": failure.retryable}
    return _response(failure, {"error": error})


def _response(failure: Failure, body: object) -> web.Response:
    headers = {}
    if failure.retryable:
        headers["Retry-After"] = str(failure.details.get("retry_after", RETRY_AFTER_SECONDS))
    if failure.code == "unauthenticated":
        headers["WWW-Authenticate"] = "Bearer"
    return web.json_response(body, status=STATUS[failure.code], headers=headers)
