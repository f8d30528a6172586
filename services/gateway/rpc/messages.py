"""ListMessages as reads (pure): what may be asked, and in which order it is looked at."""

from grpc import StatusCode

from services.gateway.rpc.errors import CallRefused
from services.gateway.rpc.moments import microsecond_from
from shared.contracts.reads import MAX_HOST_ROWS, HostMessages
from shared.host_rpc.cursors import place_of
from shared.host_rpc.generated import plugin_pb2 as wire

DEFAULT_ROWS = 50
MOST_FILTER_VALUES = 400


def read_of(request: wire.ListMessagesRequest) -> HostMessages:
    """The read that a request asks for. Raises CallRefused."""
    wanted = request.filter
    count = len(wanted.session_ids) + len(wanted.task_ids) + len(wanted.types)
    if count > MOST_FILTER_VALUES:
        raise CallRefused(
            StatusCode.INVALID_ARGUMENT,
            f"message filter has {count} session/task/type values, max {MOST_FILTER_VALUES}",
        )
    return HostMessages(
        session_ids=tuple(wanted.session_ids),
        task_ids=tuple(wanted.task_ids),
        types=tuple(wanted.types),
        since=_moment("since", wanted.since),
        until=_moment("until", wanted.until),
        after=place_of(request.page.cursor),
        limit=min(request.page.limit, MAX_HOST_ROWS) if request.page.limit > 0 else DEFAULT_ROWS,
    )


def _moment(field: str, text: str) -> int | None:
    if not text:
        return None
    try:
        return microsecond_from(text)
    except ValueError as error:
        raise CallRefused(StatusCode.INVALID_ARGUMENT, f"{field} must be RFC3339: {error}") from None
