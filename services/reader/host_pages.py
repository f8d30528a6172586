"""Pages of Host RPC as they go out: what of a row plugins' own processes are told, as the bytes of the response (pure).

They are made here, once, for the gateway to hand on: as JSON, models and messages by turns, the rows of a page would
take longer than the database takes to find them. So whatever plugins may not see is gone before it leaves a reader.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

from shared.contracts.reads import Keyset
from shared.contracts.rows import DEFAULT_TYPE, author_of
from shared.host_rpc.cursors import cursor_of
from shared.host_rpc.generated import plugin_pb2 as wire
from shared.sanitizer import public_utf8
from shared.times import format_microseconds

HostRow: TypeAlias = tuple[str, str, str | None, str | None, str, str | None, int, bytes | None, bool]
"""Id, session, task, turn, author, type, time in microseconds since 1970, content as it is stored, in UTF-8; and that
the page has it.
"""

MOST_CONTENT_BYTES = 16 << 20
"""Content of one message is cut here: a page always has one row, and a row that no client could receive would keep it
from all rows behind it.
"""

MOST_ID_CHARACTERS = 255
"""No turn has a longer id: a row that names one, as only plain SQL can, is told to name none."""

_SECOND = 1_000_000


def response_of(rows: Sequence[HostRow], *, has_more: bool) -> bytes:
    """The `ListMessagesResponse` of a page. Its first byte is the tag of a field, also where there are no rows."""
    response = wire.ListMessagesResponse(page_info=_info(rows, has_more))
    add = response.messages.add
    for message_id, session_id, task_id, turn_id, author_type, message_type, created_at, content, _ in rows:
        # In its place and field by field: what takes names and values together takes a fifth longer.
        message = add()
        message.id = message_id
        message.session_id = session_id
        message.author_type = author_of(author_type)
        message.content = _content(content or b"")  # type: ignore[assignment]  # bytes of UTF-8 are taken as well, and looked at
        message.type = message_type or DEFAULT_TYPE
        message.created_at = _second(created_at // _SECOND)
        if task_id:
            message.task_id = task_id
        if turn_id and len(turn_id) <= MOST_ID_CHARACTERS:
            message.turn_id = turn_id
    return response.SerializeToString()


def _info(rows: Sequence[HostRow], has_more: bool) -> wire.PageInfo:
    if not has_more:
        return wire.PageInfo()
    last_id, *_, last_time, _, _ = rows[-1]
    return wire.PageInfo(next_cursor=cursor_of(Keyset(time=last_time, id=last_id)), has_more=True)


@lru_cache(maxsize=4096)  # rows of a page are of few seconds
def _second(second: int) -> str:
    return format_microseconds(second * _SECOND)[:19] + "Z"


def _content(stored: bytes) -> bytes | str:
    content = public_utf8(stored)
    return content if len(content) <= MOST_CONTENT_BYTES else content[:MOST_CONTENT_BYTES].decode(errors="ignore")
