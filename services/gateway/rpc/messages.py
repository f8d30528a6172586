"""ListMessages as reads, and their answers as messages (pure): what may be asked, in which order it is looked at, and
what of a row leaves the gateway.
"""

from functools import lru_cache

from grpc import StatusCode

from services.gateway.rpc.cursors import cursor_of, place_of
from services.gateway.rpc.errors import CallRefused
from services.gateway.rpc.generated import plugin_pb2 as wire
from services.gateway.rpc.moments import microsecond_from
from shared.contracts.reads import MAX_HOST_ROWS, HostMessages, HostMessagesAnswer, Keyset
from shared.sanitizer import public_content
from shared.times import format_microseconds

DEFAULT_ROWS = 50
MOST_FILTER_VALUES = 400

MOST_CONTENT_BYTES = 16 << 20
"""Content of one message is cut here: a page always has one row, and a row that no client could receive would keep it
from all rows behind it.
"""

MOST_ID_CHARACTERS = 255
"""No turn has a longer id: a row that names one, as only plain SQL can, is told to name none."""

_SECOND = 1_000_000


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


def response_of(answer: HostMessagesAnswer) -> wire.ListMessagesResponse:
    """The response that an answer makes."""
    page = wire.PageInfo()
    if answer.has_more:
        last_id, *_, last_time, _ = answer.rows[-1]
        page = wire.PageInfo(next_cursor=cursor_of(Keyset(time=last_time, id=last_id)), has_more=True)
    response = wire.ListMessagesResponse(page_info=page)
    # Made in its place: half of the time that it takes to make a message and to copy it there.
    add = response.messages.add
    for message_id, session_id, task_id, turn_id, author_type, message_type, created_at, content in answer.rows:
        add(
            id=message_id,
            session_id=session_id,
            task_id=task_id or "",
            turn_id=turn_id if turn_id and len(turn_id) <= MOST_ID_CHARACTERS else "",
            author_type=author_type,
            content=_bounded(public_content(content)),
            type=message_type or "message",
            created_at=_second(created_at // _SECOND),
        )
    return response


def _moment(field: str, text: str) -> int | None:
    if not text:
        return None
    try:
        return microsecond_from(text)
    except ValueError as error:
        raise CallRefused(StatusCode.INVALID_ARGUMENT, f"{field} must be RFC3339: {error}") from None


@lru_cache(maxsize=4096)  # rows of a page are of few seconds
def _second(second: int) -> str:
    return format_microseconds(second * _SECOND)[:19] + "Z"


def _bounded(content: str) -> str:
    # Four bytes a character at most: nearly every content is let through without being counted.
    if len(content) * 4 <= MOST_CONTENT_BYTES:
        return content
    return content.encode()[:MOST_CONTENT_BYTES].decode(errors="ignore")
