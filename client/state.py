"""The state of one scope: what it is about, what it shows, and which phase it is in."""

from dataclasses import dataclass, field
from typing import Literal, assert_never

from client.buffer import Buffer
from client.events import CloseReason, Position
from client.range import Cursor, Filter, Loaded, Part

Status = Literal["disconnected", "loading", "repairing", "live", "closed"]


@dataclass(frozen=True, slots=True)
class Scope:
    """What a consumer subscribes to. `scope_id` is unique among all consumers of a connection."""

    session_id: str
    scope_id: str
    filter: Filter = field(default_factory=Filter)


@dataclass(frozen=True, slots=True)
class Counters:
    """What happened to a scope so far.

    `frames`: change frames that came; of those `coverage` had no operations and `duplicates` brought nothing new.
    `gaps`: times that a live scope saw a change to be missing; each leads to a repair. `resets`: frames that said so
    themselves, of any epoch. `repairs`: reads of the loaded range after the first. `reads`: pages asked for, those
    included that a cycle reads again because of frames that were lost meanwhile. `resumes`: times that the gateway told
    what was missed, so that nothing was read.
    """

    frames: int = 0
    coverage: int = 0
    duplicates: int = 0
    gaps: int = 0
    resets: int = 0
    repairs: int = 0
    reads: int = 0
    resumes: int = 0


@dataclass(frozen=True, slots=True)
class Offline:
    """No connection. `lost`: there was one before. `committed`: what is shown was live then, and nothing has cast doubt
    on it since.
    """

    lost: bool = False
    committed: bool = False


@dataclass(frozen=True, slots=True)
class Waiting:
    """A repair is due at `due`; until then frames are of no use."""

    due: float


@dataclass(frozen=True, slots=True)
class Subscribing:
    """The gateway was asked to open the scope. Frames that still come belong to the subscription that this one
    replaces (C7). `resume`: the position of the rows from which it was asked to go on.
    """

    resume: Position | None = None


@dataclass(frozen=True, slots=True)
class Pending:
    """A page that was asked for, and the row next to which it starts."""

    read: int
    cursor: Cursor | None = None


@dataclass(frozen=True, slots=True)
class Expected:
    """A revision that a check told and that frames must have reached at `by`."""

    revision: int
    by: float


@dataclass(frozen=True, slots=True)
class Reading:
    """The scope is open, its pages are read, and what comes meanwhile is buffered.

    `floor`: least revision of a usable page. `messages`: parts read so far, newest first. `turns`: likewise, oldest
    first. `broken`: frames were lost meanwhile, so that this cycle cannot end live and another one follows.
    `rereads`: pages read again because no frames led from them to the others. `bridge_by`: when that is decided next.
    """

    epoch: str
    floor: int
    messages: tuple[Part, ...] = ()
    turns: tuple[Part, ...] = ()
    messages_pending: Pending | None = None
    turns_pending: Pending | None = None
    buffer: Buffer = field(default_factory=Buffer)
    broken: bool = False
    rereads: int = 0
    bridge_by: float | None = None
    expected: Expected | None = None

    @property
    def complete(self) -> bool:
        """Whether every page that this cycle asked for is there."""
        return self.messages_pending is None and self.turns_pending is None


@dataclass(frozen=True, slots=True)
class Load:
    """An older page on its way (C6). `since`: applied revision when it was asked for; `copies`: what was applied from
    then on.
    """

    read: int
    cursor: Cursor
    since: int
    copies: Buffer = field(default_factory=Buffer)
    page: Part | None = None


@dataclass(frozen=True, slots=True)
class Live:
    """What is shown continues with every frame."""

    expected: Expected | None = None
    load: Load | None = None


@dataclass(frozen=True, slots=True)
class Closed:
    """The scope follows no longer."""

    reason: CloseReason


Phase = Offline | Waiting | Subscribing | Reading | Live | Closed


@dataclass(frozen=True, slots=True)
class State:
    """One scope. `held`: what it shows; absent until a first cycle of pages is committed (C2).

    `repaired_at`: when the last repair began. `spread`: the repair that is due or running had its random delay (C7).
    """

    scope: Scope
    phase: Phase = Offline()
    held: Loaded | None = None
    counters: Counters = field(default_factory=Counters)
    repaired_at: float = float("-inf")
    spread: bool = False
    next_read: int = 1

    @property
    def applied(self) -> int | None:
        """The revision of what is shown, if anything is."""
        return None if self.held is None else self.held.revision

    @property
    def live(self) -> bool:
        """Whether what is shown continues with every frame."""
        return isinstance(self.phase, Live)

    @property
    def closed(self) -> CloseReason | None:
        """Why the scope follows no longer, if so."""
        return self.phase.reason if isinstance(self.phase, Closed) else None

    @property
    def status(self) -> Status:
        """The phase in a word for people."""
        match self.phase:
            case Offline():
                return "disconnected"
            case Waiting() | Subscribing() | Reading():
                return "loading" if self.held is None else "repairing"
            case Live():
                return "live"
            case Closed():
                return "closed"
            case _:
                assert_never(self.phase)


def deadline(state: State) -> float | None:
    """When the state wants a `Tick`, if time alone can change it."""
    match state.phase:
        case Waiting(due):
            return due
        case Reading(buffer=buffer, broken=broken, bridge_by=bridge_by):
            due_times = [due for due in (None if broken else buffer.due, bridge_by) if due is not None]
            return min(due_times, default=None)
        case Live(expected):
            return None if expected is None else expected.by
        case Offline() | Subscribing() | Closed():
            return None
        case _:
            assert_never(state.phase)
