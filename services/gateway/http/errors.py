"""How errors look over HTTP."""

from collections.abc import Mapping

from aiohttp import web

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
}

RETRY_AFTER_SECONDS = "1"


class BadRequest(RequestFailed):
    """A request that cannot be used as given."""

    def __init__(self, message: str) -> None:
        super().__init__("invalid_query", message)


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


def _response(failure: Failure, body: object) -> web.Response:
    headers = {"Retry-After": RETRY_AFTER_SECONDS} if failure.retryable else None
    return web.json_response(body, status=STATUS[failure.code], headers=headers)
