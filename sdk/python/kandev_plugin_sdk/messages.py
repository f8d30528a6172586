"""Messages of conversations."""

from collections.abc import AsyncIterator
from datetime import datetime

from kandev_plugin_sdk._calls import Caller
from kandev_plugin_sdk._generated import plugin_pb2 as wire
from kandev_plugin_sdk.data import Message, MessageFilter, Page, PageInfo

MOST_ROWS = 200


class MessageReader:
    """Lists messages, oldest first. The plugin's manifest declares `api_read: [messages]`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def list(
        self, wanted: MessageFilter | None = None, page: Page | None = None
    ) -> tuple[list[Message], PageInfo]:
        """One page. Raises HostError, and ValueError for a time without a zone."""
        wanted, page = wanted or MessageFilter(), page or Page()
        request = wire.ListMessagesRequest(
            filter=wire.MessageFilter(
                session_ids=wanted.session_ids,
                task_ids=wanted.task_ids,
                since=_text("since", wanted.since),
                until=_text("until", wanted.until),
                types=wanted.types,
            ),
            page=wire.Page(limit=page.limit, cursor=page.cursor),
        )
        response = await self._caller.call("ListMessages", request, wire.ListMessagesResponse.FromString)
        info = PageInfo(response.page_info.next_cursor, response.page_info.has_more)
        return [_message(each) for each in response.messages], info

    async def all(self, wanted: MessageFilter | None = None, page_size: int = MOST_ROWS) -> AsyncIterator[Message]:
        """Every message, page by page. One that is written meanwhile comes too where it belongs behind what came."""
        cursor, more = "", True
        while more:
            messages, info = await self.list(wanted, Page(page_size, cursor))
            for message in messages:
                yield message
            cursor, more = info.next_cursor, info.has_more


def _text(name: str, moment: datetime | str | None) -> str | None:
    if not isinstance(moment, datetime):
        return moment
    if moment.tzinfo is None:
        raise ValueError(f"{name} needs a zone, as in datetime.now(UTC)")
    return moment.isoformat()


def _message(found: wire.Message) -> Message:
    return Message(
        id=found.id,
        session_id=found.session_id,
        task_id=found.task_id,
        turn_id=found.turn_id,
        author_type=found.author_type,
        content=found.content,
        type=found.type,
        created_at=datetime.fromisoformat(found.created_at),
    )
