"""What can happen to a scope (events) and what it then asks its surroundings to do (effects)."""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from client.range import RowChange
from shared.contracts.wire import CoreMessage, CoreTurn, SubscribeErrorCode


class CloseReason(Enum):
    """Why a scope follows no longer. The rows it showed last are kept."""

    REMOVED = "removed"  # the session is gone
    ENDED = "ended"  # no longer this reader's to see, or gone: a reader who may not see it is told no more
    NOT_FOUND = "not_found"  # there was no such session when the scope was opened
    UNAUTHENTICATED = "unauthenticated"  # the gateway wants an identity that it accepts
    REFUSED = "refused"  # the gateway refuses this subscription or read, and would again


@dataclass(frozen=True, slots=True)
class Connected:
    """The socket is open: requests can be sent."""


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The socket is lost, and every subscription with it."""


@dataclass(frozen=True, slots=True)
class Subscribed:
    """The gateway opened the scope: what it sends from here on continues `revision` of `epoch` (G1).

    `resumed`: so it continues the position that was asked for (G6). A gateway that does not know of it never says so.
    """

    epoch: str
    revision: int
    resumed: bool = False


@dataclass(frozen=True, slots=True)
class SubscribeRefused:
    """The gateway opened no scope, or did not answer (then retryable)."""

    code: SubscribeErrorCode
    retryable: bool


@dataclass(frozen=True, slots=True)
class FrameReceived:
    """The payload of a `session.conversation.changed` notification, as it came. `size`: bytes of the whole message."""

    payload: dict[str, Any]
    size: int


@dataclass(frozen=True, slots=True)
class MessagesRead:
    """The page of messages that `ReadMessages` number `read` asked for, newest first."""

    read: int
    epoch: str
    revision: int
    rows: tuple[CoreMessage, ...]
    has_more: bool


@dataclass(frozen=True, slots=True)
class TurnsRead:
    """The page of turns that `ReadTurns` number `read` asked for, oldest first."""

    read: int
    epoch: str
    revision: int
    rows: tuple[CoreTurn, ...]
    has_more: bool


@dataclass(frozen=True, slots=True)
class PageFailed:
    """No page came of read number `read`. `status`: of the HTTP answer; 0 when there was none that can be used.
    `retry_after`: seconds after which it said that asking again is worth while.
    """

    read: int
    status: int
    retry_after: float = 0.0


@dataclass(frozen=True, slots=True)
class SessionRemoved:
    """`session.removed` was pushed for this session."""


@dataclass(frozen=True, slots=True)
class IdentityRefused:
    """The gateway refuses the connection for want of an identity that it accepts, and would again."""


@dataclass(frozen=True, slots=True)
class LoadMore:
    """The reader wants the page of messages below the loaded range."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: the deadline of the state may be reached."""


Event = (
    Connected
    | Disconnected
    | Subscribed
    | SubscribeRefused
    | FrameReceived
    | MessagesRead
    | TurnsRead
    | PageFailed
    | SessionRemoved
    | IdentityRefused
    | LoadMore
    | Tick
)


@dataclass(frozen=True, slots=True)
class Position:
    """The epoch and revision of rows that are shown."""

    epoch: str
    revision: int


@dataclass(frozen=True, slots=True)
class Resubscribe:
    """Open the scope, in place of an earlier subscription of it; `resume`: from there if the gateway can (G6). Answered
    by `Subscribed` or `SubscribeRefused`.
    """

    resume: Position | None = None


@dataclass(frozen=True, slots=True)
class ReadMessages:
    """Read a page of messages, newest first; `before`: only those older than this row. Answered by `MessagesRead` or
    `PageFailed`.
    """

    read: int
    before: str | None = None


@dataclass(frozen=True, slots=True)
class ReadTurns:
    """Read a page of turns, oldest first; `after`: only those later than this row. Answered by `TurnsRead` or
    `PageFailed`.
    """

    read: int
    after: str | None = None


@dataclass(frozen=True, slots=True)
class RowsChanged:
    """The rows that are shown have changed; the state holds them all."""

    changes: tuple[RowChange, ...]


@dataclass(frozen=True, slots=True)
class LoadEnded:
    """A `LoadMore` is over. `added`: rows that it brought; None when it was abandoned and may be asked for again.
    `again_after`: least seconds until then.
    """

    added: int | None
    again_after: float = 0.0


@dataclass(frozen=True, slots=True)
class Close:
    """The scope follows no longer: nothing that comes for it will be used."""

    reason: CloseReason


Effect = Resubscribe | ReadMessages | ReadTurns | RowsChanged | LoadEnded | Close
