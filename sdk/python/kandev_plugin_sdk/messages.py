"""Messages of conversations."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from datetime import datetime

from kandev_plugin_sdk._calls import Caller
from kandev_plugin_sdk._generated import plugin_pb2 as wire
from kandev_plugin_sdk.data import Message, MessageFilter, Page, PageInfo
from kandev_plugin_sdk.errors import UNREADABLE, error_of

MOST_ROWS = 200


class MessageReader:
    """Lists messages, oldest first. The plugin's manifest declares `api_read: [messages]`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def list(
        self, wanted: MessageFilter | None = None, page: Page | None = None
    ) -> tuple[list[Message], PageInfo]:
        """One page. Raises HostError, ValueError for a time without a zone or a text that no request can hold, and
        TypeError for a text where there should be several.
        """
        response = await self._response(wanted or MessageFilter(), page or Page())
        return _messages(response), _info(response)

    async def all(
        self, wanted: MessageFilter | None = None, page_size: int = MOST_ROWS
    ) -> AsyncGenerator[Message, None]:
        """Every message, page by page; each page is asked for while the one before is looked at. One that is written
        meanwhile comes too where it belongs behind what was read. Raises what `list` raises.
        """
        wanted = wanted or MessageFilter()
        next_page: asyncio.Task[wire.ListMessagesResponse] | None = self._asked(wanted, Page(page_size))
        try:
            while next_page is not None:
                response = await next_page
                info = _info(response)
                next_page = self._asked(wanted, Page(page_size, info.next_cursor)) if info.has_more else None
                # Whoever looks without waiting for anything would not let it be sent: the task starts, then its call.
                for _ in range(2):
                    await asyncio.sleep(0)
                for message in _messages(response):
                    yield message
        finally:
            if next_page is not None:
                next_page.cancel()  # also where it has failed: then nobody is told

    def _asked(self, wanted: MessageFilter, page: Page) -> asyncio.Task[wire.ListMessagesResponse]:
        return asyncio.get_running_loop().create_task(self._response(wanted, page))

    async def _response(self, wanted: MessageFilter, page: Page) -> wire.ListMessagesResponse:
        request = wire.ListMessagesRequest(
            filter=wire.MessageFilter(
                session_ids=_values("session_ids", wanted.session_ids),
                task_ids=_values("task_ids", wanted.task_ids),
                since=_text("since", wanted.since),
                until=_text("until", wanted.until),
                types=_values("types", wanted.types),
            ),
            # The host takes any number for one of these, and a request can hold no larger ones than of 32 bits.
            page=wire.Page(limit=max(0, min(page.limit, MOST_ROWS)), cursor=page.cursor),
        )
        return await self._caller.call("ListMessages", request, wire.ListMessagesResponse.FromString)


def _info(response: wire.ListMessagesResponse) -> PageInfo:
    return PageInfo(response.page_info.next_cursor, response.page_info.has_more)


def _values(name: str, values: Iterable[str]) -> Iterable[str]:
    if isinstance(values, str):  # which would be taken for its letters
        raise TypeError(f"{name} has several values: a tuple or list, also for one")
    return values


def _text(name: str, moment: datetime | str | None) -> str | None:
    if not isinstance(moment, datetime):
        return moment
    if moment.tzinfo is None:
        raise ValueError(f"{name} needs a zone, as in datetime.now(UTC)")
    return moment.isoformat()


def _messages(response: wire.ListMessagesResponse) -> list[Message]:
    return [
        Message(
            each.id,
            each.session_id,
            each.task_id,
            each.turn_id,
            each.author_type,
            each.content,
            each.type,
            _time(each.created_at),
        )
        for each in response.messages
    ]


def _time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise error_of(*UNREADABLE) from None
