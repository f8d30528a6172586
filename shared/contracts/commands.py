"""Commands to the write boundary. Each carries its own ids, so that delivering it twice, or late, changes nothing."""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, model_validator

from shared.contracts.base import DISCREET, Contract, Id, Metadata, NewId, Timestamp
from shared.contracts.identity import Identity
from shared.contracts.replies import Envelope
from shared.contracts.rows import AuthorType

MAX_CONTENT_CHARACTERS = 16 << 20
"""Longest content of one message, in characters. PostgreSQL would take more; no client could show it."""


class CreateWorkspace(Contract):
    """A workspace. `owner_id` empty: everyone's; absent: the asker's own, or everyone's where the asker is unscoped."""

    kind: Literal["create_workspace"] = "create_workspace"
    workspace_id: NewId
    name: str
    owner_id: str | None = None


class SetMember(Contract):
    """Makes a user a member of a workspace; one who is a member stays one. For the workspace's owner, an administrator
    who may see it (`administrator`: the gateway knows the asker as one), and who is unscoped.
    """

    kind: Literal["set_member"] = "set_member"
    workspace_id: Id
    user_id: Id
    administrator: bool = False


class RemoveMember(Contract):
    """Ends a membership; one that is not there has ended. For the same as `set_member`."""

    kind: Literal["remove_member"] = "remove_member"
    workspace_id: Id
    user_id: Id
    administrator: bool = False


class CreateTask(Contract):
    """A task of a workspace that the asker may see."""

    kind: Literal["create_task"] = "create_task"
    task_id: NewId
    workspace_id: Id
    title: str


class DeleteTask(Contract):
    """Deletes a task and, by cascade, its sessions."""

    kind: Literal["delete_task"] = "delete_task"
    task_id: Id


class CreateSession(Contract):
    """A session of a task."""

    kind: Literal["create_session"] = "create_session"
    session_id: NewId
    task_id: Id
    state: str = "CREATED"
    is_passthrough: bool = False
    metadata: Metadata = "{}"
    started_at: Timestamp | None = None


class UpdateSession(Contract):
    """Replaces the state of a session. Nothing that followers see: the revision stays."""

    kind: Literal["update_session"] = "update_session"
    session_id: Id
    state: str


class DeleteSession(Contract):
    """Deletes a session with its messages and turns."""

    kind: Literal["delete_session"] = "delete_session"
    session_id: Id


class CreateMessage(Contract):
    """A message. `task_id` absent: the session's. `created_at` absent: now, settled by the source; explicit: for a user
    message strictly later than its newest.
    """

    kind: Literal["create_message"] = "create_message"
    message_id: NewId
    session_id: Id
    task_id: Id | None = None
    turn_id: Id | None = None
    author_type: AuthorType
    author_id: str = ""
    content: Annotated[str, Field(max_length=MAX_CONTENT_CHARACTERS)] = ""
    type: str = "message"
    requests_input: bool = False
    metadata: Metadata = "{}"
    created_at: Timestamp | None = None


class AppendMessage(Contract):
    """Appends `text` at character `offset`, the length the asker knows. Already there: nothing to do. Otherwise
    `conflict` with the true `length`.
    """

    kind: Literal["append_message"] = "append_message"
    message_id: Id
    session_id: Id
    offset: Annotated[int, Field(ge=0)]
    text: Annotated[str, Field(max_length=MAX_CONTENT_CHARACTERS)]


class UpdateMessage(Contract):
    """Replaces the fields that are given. Expects the row at `expected_updated_at`, or the session at
    `expected_revision`: one of them is required.
    """

    kind: Literal["update_message"] = "update_message"
    message_id: Id
    session_id: Id
    content: Annotated[str, Field(max_length=MAX_CONTENT_CHARACTERS)] | None = None
    type: str | None = None
    requests_input: bool | None = None
    metadata: Metadata | None = None
    turn_id: Id | None = None
    expected_updated_at: Timestamp | None = None
    expected_revision: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _is_guarded(self) -> "UpdateMessage":
        if self.expected_updated_at is None and self.expected_revision is None:
            raise ValueError("expected_updated_at (of the row that was edited) or expected_revision is required")
        return self


class DeleteMessage(Contract):
    """Deletes a message; one that is not there is deleted already."""

    kind: Literal["delete_message"] = "delete_message"
    message_id: Id
    session_id: Id


class StartTurn(Contract):
    """Starts a turn. `started_at` absent: now."""

    kind: Literal["start_turn"] = "start_turn"
    turn_id: NewId
    session_id: Id
    task_id: Id | None = None
    execution_profile_id: str | None = None
    route_generation: int | None = None
    metadata: Metadata = "{}"
    started_at: Timestamp | None = None


class CompleteTurn(Contract):
    """Completes a turn; one that is complete stays as it is. `completed_at` absent: now."""

    kind: Literal["complete_turn"] = "complete_turn"
    turn_id: Id
    session_id: Id
    completed_at: Timestamp | None = None


Command = Annotated[
    CreateWorkspace
    | SetMember
    | RemoveMember
    | CreateTask
    | DeleteTask
    | CreateSession
    | UpdateSession
    | DeleteSession
    | CreateMessage
    | AppendMessage
    | UpdateMessage
    | DeleteMessage
    | StartTurn
    | CompleteTurn,
    Field(discriminator="kind"),
]

COMMAND: TypeAdapter[Command] = TypeAdapter(Command, config=DISCREET)
"""Parses a command. With `strict=True` each field has to be of its JSON type: no text for a number, no number for a
boolean.
"""


class CommandRequest(Envelope):
    """One entry of `conversation:commands`."""

    identity: Identity
    command: Command


class CommandResult(Contract):
    """What the commit did, told after it: the receipt's interval. Equal revisions: it was done before. Without a
    session: both 0.
    """

    kind: Literal["done"] = "done"
    session_id: str = ""
    epoch: str = ""
    base_revision: int = 0
    revision: int = 0
