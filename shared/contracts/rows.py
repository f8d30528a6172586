"""Rows of the source as services exchange them: whole, unsanitised, and therefore never sent to a client as such."""

from typing import Literal

from shared.contracts.base import Contract, Timestamp

AuthorType = Literal["user", "agent"]
Entity = Literal["message", "turn"]

DEFAULT_TYPE = "message"
"""The type of a message that has none."""


def author_of(stored: str) -> AuthorType:
    """Who wrote a row, by its column. Tables that were there before this program may know others than these two:
    whoever is no user is an agent, in pages, receipts and filters alike.
    """
    return "user" if stored == "user" else "agent"


def type_of(stored: str | None) -> str:
    """The type of a row, by its column, which may be NULL in such tables."""
    return DEFAULT_TYPE if stored is None else stored


class MessageRow(Contract):
    """One row of `task_session_messages`.

    `prompt_seq`: the session-wide ordinal of a user message, 1 or more; 0 for none.
    `metadata`: the JSON text of an object that is not empty, as `shared.metadata.shown_metadata` gives it, or `None`.
    """

    id: str
    session_id: str
    task_id: str | None
    turn_id: str | None
    author_type: AuthorType
    author_id: str
    content: str
    requests_input: bool
    type: str
    metadata: str | None
    created_at: Timestamp
    updated_at: Timestamp
    prompt_seq: int


class TurnRow(Contract):
    """One row of `task_session_turns`."""

    id: str
    session_id: str
    task_id: str | None
    started_at: Timestamp
    completed_at: Timestamp | None
    execution_profile_id: str | None
    route_generation: int | None
    metadata: str | None
    created_at: Timestamp
    updated_at: Timestamp
