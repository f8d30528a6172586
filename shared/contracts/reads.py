"""Read requests and their answers. Every answer comes from one snapshot, which also decides access (`docs/protocol.md`,
G2).
"""

from typing import Annotated, Literal

from pydantic import Field

from shared.contracts.base import Contract, Id, Timestamp
from shared.contracts.identity import Identity
from shared.contracts.replies import Envelope
from shared.contracts.rows import AuthorType, MessageRow, TurnRow

Sort = Literal["asc", "desc"]

MAX_PAGE_ROWS = 100
"""Most rows of a page that was asked for with a limit."""

MAX_HOST_ROWS = 200
"""Most rows of a page that a plugin's own process asks for."""

MAX_PAGE_BYTES = 8 << 20
"""A page ends early, with more to come, when its rows reach 8 MiB; one row is always returned."""


class Bound(Contract):
    """A source position: answers older than this are refused as `behind`. Of another epoch than the source's it says
    nothing.
    """

    epoch: str
    revision: int


class Keyset(Contract):
    """A place in the order (time, id), whether or not a row stands there.

    `time`: `created_at` of messages, `started_at` of turns, in microseconds since 1970. A number, since rows whose time
    has no text of its own (`shared.times`) must not share one place.
    """

    time: int
    id: str


class Before(Contract):
    """Rows strictly older than the named row of the session, or than a keyset position."""

    at: Literal["before"] = "before"
    row: str | Keyset


class After(Contract):
    """Rows strictly newer than the named row of the session, or than a keyset position."""

    at: Literal["after"] = "after"
    row: str | Keyset


class Around(Contract):
    """A window centred on a row of the session, with both edges' `has_more`."""

    at: Literal["around"] = "around"
    row: str


class SessionRead(Contract):
    """What every read of one session says.

    `least`: the newest position the asker knows of. `expected_revision`: refuse with `reconciliation_required` when the
    source is at another one.
    `authoritative`: answer from the primary even where a replica serves other reads.
    """

    identity: Identity
    session_id: Id
    least: Bound | None = None
    expected_revision: int | None = None
    authoritative: bool = False


class PageRead(SessionRead):
    """A page that several may have asked for at once (G8).

    `readers`: users who want this page; the answer names those among them who may see it. The identity beside them is
    then the gateway's own. `held`: where the asker's copy of this page was read; if the session still stands there, the
    answer is an `UnchangedAnswer`.
    """

    readers: tuple[str, ...] = ()
    held: Bound | None = None


class MessagesPage(PageRead):
    """A page of a session's messages in the order (created_at, id).

    `task_id`: only rows of this task; `None` for every task. `authors`: only rows by these; empty for all. `limit`:
    rows, at most `MAX_PAGE_ROWS`;
    `None` ends the page by its bytes only. Without a position an `asc` page starts at the oldest row and a `desc` page
    at the newest.
    """

    kind: Literal["messages_page"] = "messages_page"
    task_id: str | None = None
    authors: tuple[AuthorType, ...] = ()
    sort: Sort = "asc"
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE_ROWS)] | None = 20
    position: Annotated[Before | After | Around, Field(discriminator="at")] | None = None


class TurnsPage(PageRead):
    """A page of a session's turns in the order (started_at, id). Fields as for messages."""

    kind: Literal["turns_page"] = "turns_page"
    task_id: str | None = None
    sort: Sort = "asc"
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE_ROWS)] | None = 100
    position: Annotated[Before | After, Field(discriminator="at")] | None = None


class RevisionCheck(Contract):
    """The current revision of many sessions in one query. `least` maps a session to the revision the answer must have
    reached.

    `readers` maps a session to users who follow it: the answer says which of them may not read it any more. `as_found`:
    answer from one snapshot, whatever it lacks; otherwise what a replica lacks is asked of the primary.
    """

    kind: Literal["revision_check"] = "revision_check"
    identity: Identity
    sessions: tuple[str, ...]
    epoch: str | None = None
    least: dict[str, int] = {}
    readers: dict[str, tuple[str, ...]] = {}
    authoritative: bool = False
    as_found: bool = False


class SessionSearch(SessionRead):
    """Messages whose content holds `query` (case-insensitive), newest first."""

    kind: Literal["message_search"] = "message_search"
    query: str
    limit: Annotated[int, Field(ge=1, le=500)] = 100


class WorkspaceList(Contract):
    """The workspaces that the asker may see."""

    kind: Literal["workspace_list"] = "workspace_list"
    identity: Identity


class TaskList(Contract):
    """Tasks the asker may see, newest first; of one workspace when it is named; one task when it is named."""

    kind: Literal["task_list"] = "task_list"
    identity: Identity
    workspace_id: str | None = None
    task_id: str | None = None


class SessionList(Contract):
    """Sessions the asker may see, newest first; of one task when it is named; one session when it is named."""

    kind: Literal["session_list"] = "session_list"
    identity: Identity
    task_id: str | None = None
    session_id: str | None = None


class MemberList(Contract):
    """The members of a workspace that the asker may see, by id."""

    kind: Literal["member_list"] = "member_list"
    identity: Identity
    workspace_id: Id


class HostMessages(Contract):
    """Messages of all conversations in the order (created_at, id), oldest first, as plugins' own processes read them.

    It names nobody: the gateway asks for a plugin that may read every conversation, and the filter alone narrows.
    Fields that are set narrow together, the values of one field widen. `since` (inclusive) and `until` (exclusive):
    microseconds since 1970. `after`: rows behind this place. The answer is no JSON: it is the response as it goes out
    (`shared.host_rpc`).
    """

    kind: Literal["host_messages"] = "host_messages"
    session_ids: tuple[str, ...] = ()
    task_ids: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None
    after: Keyset | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_HOST_ROWS)] = 50


Read = Annotated[
    MessagesPage
    | TurnsPage
    | RevisionCheck
    | SessionSearch
    | WorkspaceList
    | TaskList
    | SessionList
    | MemberList
    | HostMessages,
    Field(discriminator="kind"),
]


class ReadRequest(Envelope):
    """One entry of `conversation:reads`."""

    read: Read


class SourcePosition(Contract):
    """Where the answering snapshot stood. `primary`: not on a replica (R4: an epoch is adopted only from there)."""

    epoch: str
    primary: bool


class PageAnswer(SourcePosition):
    """What every answer to a page says: whose page it is, where it was read, and which of the read's `readers` may see
    it in that very snapshot. `task_id`: the session's own task.
    """

    session_id: str
    task_id: str
    revision: int
    admitted: tuple[str, ...] = ()


class UnchangedAnswer(PageAnswer):
    """The page is the one that the asker holds."""

    kind: Literal["unchanged"] = "unchanged"


class MessagesAnswer(PageAnswer):
    """A page of messages at `revision`.

    Rows are in the order asked for. `has_more`: further rows in the direction of paging (of either, around a row:
    `has_older`, `has_newer`). `end`: keyset position of the last row, for the next page. `long`: places of the rows
    whose content stands behind the JSON (`shared.broker.long_texts`).
    """

    kind: Literal["messages"] = "messages"
    rows: tuple[MessageRow, ...]
    has_more: bool
    has_older: bool
    has_newer: bool
    end: Keyset | None
    long: tuple[int, ...] = ()


class TurnsAnswer(PageAnswer):
    """A page of turns at `revision`. Fields as for messages."""

    kind: Literal["turns"] = "turns"
    rows: tuple[TurnRow, ...]
    has_more: bool
    end: Keyset | None


class RevisionAnswer(SourcePosition):
    """Current revisions. A session that is missing here is not there, or not the asker's to see.

    `refused`: by session, those of its named readers who may not read it. A session that is not there refuses nobody.
    `tracker_seconds`: how long ago, by the database's clock, the leading tracker was last seen; None: never.
    """

    kind: Literal["revisions"] = "revisions"
    tracker_seconds: float | None = None
    revisions: dict[str, int]
    tasks: dict[str, str]
    refused: dict[str, tuple[str, ...]] = {}


class SearchHit(Contract):
    """One found message: a snippet of at most 200 characters around the first match, cut from its sanitised content."""

    id: str
    turn_id: str | None
    author_type: AuthorType
    type: str
    snippet: str
    created_at: Timestamp


class SearchAnswer(SourcePosition):
    """Found messages, newest first."""

    kind: Literal["search"] = "search"
    hits: tuple[SearchHit, ...]


class WorkspaceRow(Contract):
    """One workspace."""

    id: str
    name: str
    owner_id: str


class TaskRow(Contract):
    """One task."""

    id: str
    workspace_id: str
    title: str
    created_at: Timestamp
    updated_at: Timestamp


class SessionRow(Contract):
    """One session, with its current revision."""

    id: str
    task_id: str
    state: str
    is_passthrough: bool
    started_at: Timestamp | None
    completed_at: Timestamp | None
    updated_at: Timestamp
    revision: int


class MemberRow(Contract):
    """One member of a workspace."""

    user_id: str
    role: str


class ListAnswer(SourcePosition):
    """Rows of a first-party list; the kind asked for is filled. Beside members stands their workspace; without it, it
    is not there, or not the asker's to see.
    """

    kind: Literal["list"] = "list"
    workspaces: tuple[WorkspaceRow, ...] = ()
    tasks: tuple[TaskRow, ...] = ()
    sessions: tuple[SessionRow, ...] = ()
    members: tuple[MemberRow, ...] = ()


Answer = Annotated[
    MessagesAnswer | TurnsAnswer | UnchangedAnswer | RevisionAnswer | SearchAnswer | ListAnswer,
    Field(discriminator="kind"),
]
