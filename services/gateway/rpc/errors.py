"""How a call of Host RPC is refused."""

from collections.abc import Mapping

from grpc import StatusCode

from shared.contracts.errors import ErrorCode, RequestFailed


class CallRefused(Exception):
    """A call ends with this status. Its text quotes nothing that was sent or read."""

    def __init__(self, status: StatusCode, message: str) -> None:
        super().__init__(message)
        self.status = status


_STATUSES: Mapping[ErrorCode, StatusCode] = {
    "invalid_query": StatusCode.INVALID_ARGUMENT,
    "limit_exceeded": StatusCode.RESOURCE_EXHAUSTED,
    "unavailable": StatusCode.UNAVAILABLE,
    "behind": StatusCode.UNAVAILABLE,
}


def refused(failed: RequestFailed) -> CallRefused:
    """A read that failed, as its caller is told."""
    return CallRefused(_STATUSES.get(failed.failure.code, StatusCode.INTERNAL), failed.failure.message)
