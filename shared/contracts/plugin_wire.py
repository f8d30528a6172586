"""What a plugin sees of a conversation, over HTTP and in frames (`docs/plugins-authoring.md`). Names are fixed: clients
exist. Never more than these fields: metadata, unstripped content and who wrote for whom stay with first-party clients.
"""

# ruff: noqa: N815 - the names of the wire are camel-case here

from typing import Annotated, Literal

from pydantic import Field

from shared.contracts.base import Contract, Timestamp
from shared.contracts.rows import AuthorType, Entity
from shared.contracts.wire import AnyChanged, Revision


class PluginMessage(Contract):
    """A message without system blocks, not even one that is still being written.

    `taskId`: null where the message is of no task. `promptIndex`: the ordinal of a user message, 1 or more.
    `senderTaskId`: the task whose agent sent this prompt.
    """

    id: str
    taskId: str | None
    sessionId: str
    turnId: str | None = None
    authorType: AuthorType
    type: str
    content: str
    createdAt: Timestamp
    updatedAt: Timestamp
    promptIndex: Annotated[int, Field(ge=1)] | None = None
    senderTaskId: str | None = None


class PluginTurn(Contract):
    """A turn. `completedAt` is absent while it runs."""

    id: str
    taskId: str | None
    sessionId: str
    startedAt: Timestamp
    completedAt: Timestamp | None = None
    updatedAt: Timestamp


class PluginOperation(Contract):
    """What an interval did to one row, as a plugin's scope may see it. A `remove` says: out of this scope."""

    kind: Literal["upsert", "remove"]
    entity: Entity
    id: str
    message: PluginMessage | None = None
    turn: PluginTurn | None = None


class PluginChanged(AnyChanged):
    """Payload of `session.conversation.changed` for a plugin's scope."""

    operations: tuple[PluginOperation, ...]


class BindingBody(Contract):
    """A binding: for the header of reads and the field of a subscription. `expiresAt`: at most ten minutes ahead."""

    bindingToken: str
    generation: int
    expiresAt: Timestamp


class RevisionBody(Contract):
    """Where the source stands."""

    epoch: str
    revision: Revision


class _Page(RevisionBody):
    """A page at `revision`, from one snapshot. `cursor`: for the next page; null at the end."""

    hasMore: bool
    cursor: str | None


class MessagesBody(_Page):
    """A page of messages."""

    messages: tuple[PluginMessage, ...]


class TurnsBody(_Page):
    """A page of turns."""

    turns: tuple[PluginTurn, ...]
