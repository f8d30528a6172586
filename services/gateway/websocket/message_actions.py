"""The actions `message.list`, `message.search` and `message.add`."""

import uuid
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from services.gateway.metrics import count_page
from services.gateway.pages import page_of_messages, position_named, rows_wanted, session_named, sort_named
from services.gateway.scopes.rows import core_message
from services.gateway.source.requests import Source
from services.gateway.websocket.connection import Action, Connection
from services.gateway.websocket.requests import Json, Refused, answered, payload_of
from shared.contracts.base import Contract
from shared.contracts.commands import CreateMessage
from shared.contracts.errors import RequestFailed, problem
from shared.contracts.identity import Identity
from shared.contracts.reads import Around, MessagesPage, SessionSearch
from shared.contracts.rows import MessageRow
from shared.contracts.wire import MESSAGE_ADD, MESSAGE_LIST, MESSAGE_SEARCH, ClientMessage
from shared.metadata import metadata_text

DEFAULT_HITS = 100
MOST_HITS = 500
MAX_QUERY_CHARACTERS = 1000
"""Longest text that is looked for: a person's, not a document."""

_CLIENT_IDS = uuid.UUID("6f1a3c7e-0d43-5c1b-9a58-2f3e8f0c4b77")
"""Namespace of the message ids that are derived from `client_message_id`."""

_KEPT = ("model", "plan_mode", "has_review_comments", "attachments", "context_files", "entity_references")
"""What a client says of its message beside the text, and the source keeps in the message's metadata."""


class ListMessages(Contract):
    """Payload of `message.list`."""

    session_id: str = ""
    limit: int = 0
    before: str = ""
    after: str = ""
    sort: str = ""


class SearchMessages(Contract):
    """Payload of `message.search`."""

    session_id: str = ""
    query: str = ""
    limit: int = 0


class AddMessage(Contract):
    """Payload of `message.add`."""

    task_id: str = ""
    session_id: str = ""
    message_id: str = ""
    client_message_id: str = ""
    content: str = ""
    author_id: str = ""
    model: str = ""
    plan_mode: bool = False
    has_review_comments: bool = False
    # Any: the client's own descriptions of files and entities, kept as they are
    attachments: list[dict[str, Any]] = []
    context_files: list[dict[str, Any]] = []
    entity_references: list[dict[str, Any]] = []


class MessageActions:
    """The actions on messages, as the caller of a connection may use them."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def actions(self) -> Mapping[str, Action]:
        """By name."""
        return {
            MESSAGE_LIST: answered(self._list, "Failed to list messages"),
            MESSAGE_SEARCH: answered(self._search, "Failed to search messages"),
            MESSAGE_ADD: answered(self._add, "Failed to add message"),
        }

    async def _list(self, connection: Connection, request: ClientMessage) -> Json:
        """A page. Without a limit it ends by its bytes: then `has_more` and `cursor` say how to go on."""
        wanted = payload_of(request, ListMessages)
        position = position_named(wanted.before, wanted.after)
        page = MessagesPage(
            identity=connection.caller.identity,
            session_id=_session(wanted.session_id),
            sort=sort_named(wanted.sort),
            limit=rows_wanted(wanted.limit, position is not None),
            position=position,
        )
        count_page(connection.hub.follows(page.session_id))
        async with connection.page():
            return page_of_messages(await self._source.messages(page))

    async def _search(self, connection: Connection, request: ClientMessage) -> Json:
        """Hits, newest first. A blank text finds nothing, without a look."""
        wanted = payload_of(request, SearchMessages)
        session_id = _session(wanted.session_id)
        if len(wanted.query) > MAX_QUERY_CHARACTERS:
            raise Refused("VALIDATION_ERROR", f"query may have {MAX_QUERY_CHARACTERS} characters")
        if not wanted.query.strip():
            return {"hits": [], "total": 0}
        search = SessionSearch(
            identity=connection.caller.identity,
            session_id=session_id,
            query=wanted.query,
            limit=min(wanted.limit, MOST_HITS) if wanted.limit > 0 else DEFAULT_HITS,
        )
        hits = [hit.model_dump(mode="json", exclude_none=True) for hit in (await self._source.search(search)).hits]
        return {"hits": hits, "total": len(hits)}

    async def _add(self, connection: Connection, request: ClientMessage) -> Json:
        """The stored message. The same `client_message_id` again, in this session, finds the message that it made."""
        wanted = payload_of(request, AddMessage)
        command = _command(wanted, connection.caller.identity)
        is_taken = False
        try:
            await self._source.command(connection.caller.identity, command)
        except RequestFailed as failed:
            if failed.failure.code != "conflict":
                raise
            is_taken = True
        row = await self._stored(connection.caller.identity, command)
        if row is not None and _is_of(row, command):
            return core_message(row)
        if row is None and not is_taken:
            raise Refused("NOT_FOUND", "not found")  # deleted since
        named = "client_message_id" if wanted.client_message_id else "message_id"
        raise Refused("VALIDATION_ERROR", f"{named} is already used")

    async def _stored(self, identity: Identity, command: CreateMessage) -> MessageRow | None:
        """The message of that id in the command's session; `None` where it belongs to another one."""
        page = MessagesPage(
            identity=identity, session_id=command.session_id, limit=1, position=Around(row=command.message_id)
        )
        try:
            answer = await self._source.messages(page)
        except RequestFailed as failed:
            if failed.failure.code != "not_found":
                raise
            return None
        return next((row for row in answer.rows if row.id == command.message_id), None)


def _command(wanted: AddMessage, identity: Identity) -> CreateMessage:
    session_id = _session(wanted.session_id)
    if not wanted.task_id:
        raise Refused("VALIDATION_ERROR", "task_id is required")
    if not wanted.content.strip() and not wanted.attachments:
        raise Refused("VALIDATION_ERROR", "content is required")
    given = {name: value for name in _KEPT if (value := getattr(wanted, name))}
    command = {
        "kind": "create_message",
        "message_id": _message_id(wanted, session_id),
        "session_id": session_id,
        "task_id": wanted.task_id,
        "author_type": "user",
        "author_id": wanted.author_id or identity.user,
        "content": wanted.content,
    }
    try:
        command["metadata"] = metadata_text(given)
        return CreateMessage.model_validate(command)
    except ValidationError as error:
        raise Refused("VALIDATION_ERROR", problem(error, "payload")) from None
    except ValueError as error:
        raise Refused("VALIDATION_ERROR", f"what stands beside the text is {error}") from None


def _message_id(wanted: AddMessage, session_id: str) -> str:
    """Derived from the client's id, so that a request that is sent again names the same message."""
    if wanted.client_message_id:
        return str(uuid.uuid5(_CLIENT_IDS, f"{session_id}\n{wanted.client_message_id}"))
    return wanted.message_id or str(uuid.uuid4())


def _is_of(row: MessageRow, command: CreateMessage) -> bool:
    """Whether the row is the command's own message, whatever became of its text since."""
    return (row.task_id, row.author_type, row.author_id) == (command.task_id, command.author_type, command.author_id)


def _session(session_id: str) -> str:
    if not session_id.strip():
        raise Refused("VALIDATION_ERROR", "session_id is required")
    return session_named(session_id)
