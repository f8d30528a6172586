"""What a WebSocket client sends and sees (`docs/protocol.md`, section "The wire"). Field names, actions and codes are
fixed: clients exist.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from shared.contracts.base import DECIMAL, Contract, Id, Timestamp
from shared.contracts.rows import AuthorType, Entity

PROTOCOL_VERSION: Literal[2] = 2

SUBSCRIBE = "session.conversation.subscribe"
UNSUBSCRIBE = "session.conversation.unsubscribe"
CHANGED = "session.conversation.changed"
SESSION_REMOVED = "session.removed"

MESSAGE_LIST = "message.list"
MESSAGE_SEARCH = "message.search"
MESSAGE_ADD = "message.add"

SESSION_SUBSCRIBE = "session.subscribe"
SESSION_UNSUBSCRIBE = "session.unsubscribe"
SESSION_FOCUS = "session.focus"
SESSION_UNFOCUS = "session.unfocus"

MESSAGE_ADDED = "session.message.added"
MESSAGE_UPDATED = "session.message.updated"
MESSAGE_DELETED = "session.message.deleted"
TURN_STARTED = "session.turn.started"
TURN_COMPLETED = "session.turn.completed"

Revision = Annotated[str, StringConstraints(pattern=DECIMAL)]
"""A revision as clients see it: a decimal string, since JavaScript numbers lose precision above 2^53."""

HeldRevision = Annotated[Revision, Field(max_length=19)]
"""A revision as clients send it back: no longer than one can be."""

NO_REVISION: Literal[""] = ""
"""Stands for both revisions of a reset or terminal frame, so that a client that knows neither field cannot take it for
coverage (G7).
"""


class ClientMessage(Contract):
    """Anything that a client sends. A reply repeats `id` and `action`."""

    id: str | None = None
    type: Literal["request"]
    action: str
    payload: dict[str, Any] = {}


class Resume(Contract):
    """The position of the rows that a client holds, all of them as they were then, under the same filter."""

    epoch: str
    revision: HeldRevision


class Subscribe(Contract):
    """Payload of `session.conversation.subscribe`. A plugin names itself; a core request carries no plugin field.

    `sort` changes nothing: a client says how it shows rows. `resume`: goes on from there if the gateway remembers what
    came since (G6). `managed_conversation_token` is not supported.
    """

    session_id: Id
    scope_id: Id
    consumer_kind: Literal["core", "plugin"]
    protocol_version: int = PROTOCOL_VERSION
    task_id: Id | None = None
    authors: tuple[AuthorType, ...] = ()
    sort: Literal["asc", "desc"] = "asc"
    plugin_id: str | None = None
    generation: Annotated[int, Field(strict=True)] | None = None
    binding_token: str | None = None
    resume: Resume | None = None
    managed_conversation_token: str | None = None


class Unsubscribe(Contract):
    """Payload of `session.conversation.unsubscribe`."""

    scope_id: Id
    session_id: Id | None = None


SubscribeErrorCode = Literal[
    "invalid_request",
    "invalid_binding",
    "generation_superseded",
    "not_found",
    "upstream_failure",
    "limit_exceeded",
]

SUBSCRIBE_RETRYABLE: frozenset[SubscribeErrorCode] = frozenset({"generation_superseded", "upstream_failure"})


class SubscribeError(Contract):
    """Why a subscription was refused."""

    code: SubscribeErrorCode
    message: str
    retryable: bool


class Subscribed(Contract):
    """The reply once a scope is open: every change above `revision` reaches it, or leaves a visible gap (G1).

    `resumed`: whether `revision` is the one that the client asked to go on from; absent when it did not ask.
    """

    success: Literal[True] = True
    protocol_version: Literal[2] = PROTOCOL_VERSION
    scope_id: str
    session_id: str
    epoch: str
    revision: Revision
    resumed: bool | None = None


class SubscribeRefused(Contract):
    """The reply when no scope was opened."""

    success: Literal[False] = False
    error: SubscribeError
    session_id: str | None = None


class Unsubscribed(Contract):
    """The reply once a scope is closed."""

    success: Literal[True] = True
    protocol_version: Literal[2] = PROTOCOL_VERSION
    scope_id: str
    session_id: str


class CoreMessage(Contract):
    """A message as first-party clients see it, over HTTP and in frames. Content is stripped of system blocks.

    `raw_content`: the unstripped text, only where something was stripped; `metadata` then has `has_hidden_prompts`.
    `prompt_index`: the ordinal of a user message, 1 or more.
    """

    id: str
    session_id: str
    task_id: str | None = None
    turn_id: str | None = None
    author_type: AuthorType
    author_id: str | None = None
    type: str | None = None
    content: str
    raw_content: str | None = None
    requests_input: bool
    metadata: dict[str, Any] | None = None
    created_at: Timestamp
    updated_at: Timestamp
    prompt_index: Annotated[int, Field(ge=1)] | None = None


class CoreTurn(Contract):
    """A turn as first-party clients see it."""

    id: str
    session_id: str
    task_id: str | None = None
    started_at: Timestamp
    completed_at: Timestamp | None = None
    execution_profile_id: str | None = None
    route_generation: int | None = None
    metadata: dict[str, Any] | None = None
    created_at: Timestamp
    updated_at: Timestamp


class FrameOperation(Contract):
    """What an interval did to one row, as the scope may see it. A `remove` says: out of this scope."""

    kind: Literal["upsert", "remove"]
    entity: Entity
    id: str
    message: CoreMessage | None = None
    turn: CoreTurn | None = None


class AnyChanged(Contract):
    """What every payload of `session.conversation.changed` has, whoever the scope is for."""

    protocol_version: Literal[2] = PROTOCOL_VERSION
    scope_id: str
    session_id: str
    epoch: str
    base_revision: Revision | Literal[""]
    revision: Revision | Literal[""]
    check: Literal[True] | None = None
    terminal: Literal[True] | None = None
    reset: Literal[True] | None = None


class Changed(AnyChanged):
    """Payload of `session.conversation.changed`: change, coverage, reset, check or terminal."""

    operations: tuple[FrameOperation, ...]


class SessionRemoved(Contract):
    """Payload of `session.removed`."""

    session_id: str


RequestErrorCode = Literal[
    "BAD_REQUEST",
    "NOT_FOUND",
    "INTERNAL_ERROR",
    "UNAUTHORIZED",
    "FORBIDDEN",
    "VALIDATION_ERROR",
    "CONFLICT",
    "UNKNOWN_ACTION",
]
"""Codes of `{"type":"error"}` replies, other than those of subscriptions, which always come as responses."""


class RequestError(Contract):
    """Payload of an error reply."""

    code: RequestErrorCode
    message: str
    details: dict[str, Any] | None = None
