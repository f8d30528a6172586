"""What one scope does with whatever happens to it: a pure function of its state, the event and the moment.

`step` is a table of event and phase. Both are closed unions, and every `match` ends in `assert_never`, so that a pair
without an answer does not pass the type checker.

    phase        waits for                             leaves it to
    -----------  ------------------------------------  -----------------------------------------------------------------
    Offline      Connected                             Subscribing, to resume where rows were live (G6); Waiting after
                                                       a lost connection else (C7)
    Waiting      its due time                          Subscribing
    Subscribing  the reply                             Reading; Live when resumed; Waiting when that or all is refused,
                                                       or when the epoch is new (C7)
    Reading      every page, and frames between them   Live; Waiting when frames were lost (C1) or a page was of no use
    Live         frames                                Waiting on a gap, reset, bad frame, other epoch, missed check
    Closed       nothing                               -

From every phase but Closed, Disconnected leads to Offline, and a terminal frame or the session's removal to Closed. A
scope that has merely ended takes in, once, what tells why.
"""

from dataclasses import replace
from typing import assert_never

from client.events import (
    CloseReason,
    Connected,
    Disconnected,
    Event,
    FrameReceived,
    IdentityRefused,
    LoadMore,
    MessagesRead,
    PageFailed,
    Position,
    SessionRemoved,
    Subscribed,
    SubscribeRefused,
    Tick,
    TurnsRead,
)
from client.following import checked, followed, grace_ended, more_failed, more_read, more_wanted
from client.frames import Change, Check, Foreign, Malformed, OtherEpoch, Reset, Terminal, read_frame
from client.range import Loaded
from client.reading import broken, buffered, noted, opened, page_failed, page_read, waited
from client.repair import (
    EPOCH_SPREAD,
    RECONNECT_SPREAD,
    Moment,
    Step,
    abandoned,
    again,
    begin,
    close,
    counted,
    gone,
    repair,
    resume,
)
from client.state import Closed, Live, Offline, Reading, State, Subscribing, Waiting

FrameForScope = Malformed | OtherEpoch | Reset | Check | Change
"""What is left of a frame once it is known to concern the scope and not to end it."""

UNAUTHENTICATED = frozenset({401, 403})
"""Statuses after which no request of this identity is answered otherwise."""


def step(state: State, event: Event, moment: Moment) -> Step:
    """What the event makes of the state."""
    if isinstance(state.phase, Closed):
        return _explained(state, state.phase, event)
    match event:
        case Connected():
            following = _connected(state, moment)
        case Disconnected():
            following = replace(state, phase=Offline(lost=True, committed=_committed(state))), abandoned(state)
        case Subscribed() | SubscribeRefused():
            following = _replied(state, event, moment)
        case FrameReceived():
            following = _received(state, event, moment)
        case MessagesRead() | TurnsRead() | PageFailed():
            following = _answered(state, event, moment)
        case SessionRemoved() | IdentityRefused():
            following = close(state, _reason(event))
        case LoadMore():
            following = _load_more(state, moment)
        case Tick():
            following = _tick(state, moment)
        case _:
            assert_never(event)
    return following


def _explained(state: State, closed: Closed, event: Event) -> Step:
    """The gateway ends a scope before it says, if it may, that the session was removed or the identity has ended."""
    if closed.reason is CloseReason.ENDED and isinstance(event, SessionRemoved | IdentityRefused):
        return close(state, _reason(event))
    return state, ()


def _reason(event: SessionRemoved | IdentityRefused) -> CloseReason:
    return CloseReason.REMOVED if isinstance(event, SessionRemoved) else CloseReason.UNAUTHENTICATED


def _connected(state: State, moment: Moment) -> Step:
    match state.phase:
        case Offline(lost=False):
            return begin(state, moment.now)
        case Offline(committed=True) if state.held is not None:
            return resume(state, state.held)
        case Offline():
            return repair(state, moment, spread=RECONNECT_SPREAD)
        case Waiting() | Subscribing() | Reading() | Live() | Closed():
            return state, ()
        case _:
            assert_never(state.phase)


def _committed(state: State) -> bool:
    """Whether what is shown is what the source was at its revision, as far as anything has told: a scope that repairs
    may have been told otherwise.
    """
    match state.phase:
        case Live():
            return True
        case Offline(committed=committed):
            return committed
        case Subscribing(resume=position):
            return position is not None
        case Waiting() | Reading() | Closed():
            return False
        case _:
            assert_never(state.phase)


def _replied(state: State, event: Subscribed | SubscribeRefused, moment: Moment) -> Step:
    match state.phase:
        case Subscribing():
            if isinstance(event, SubscribeRefused):
                return _refused(state, event, moment)
            if (position := state.phase.resume) is not None:
                if event.resumed and position == Position(event.epoch, event.revision):
                    return replace(counted(state, resumes=1), phase=Live(), spread=False), ()
                return repair(state, moment, spread=RECONNECT_SPREAD)
            if state.held is not None and state.held.epoch != event.epoch and not state.spread:
                return repair(state, moment, spread=EPOCH_SPREAD)
            return opened(state, event.epoch, event.revision)
        case Offline() | Waiting() | Reading() | Live() | Closed():
            return state, ()
        case _:
            assert_never(state.phase)


def _refused(state: State, event: SubscribeRefused, moment: Moment) -> Step:
    """A refusal has replaced the earlier subscription all the same: nothing is shown as live until another one
    succeeds (C7).
    """
    if event.code == "not_found":
        return gone(state)
    if event.retryable:
        return again(state, moment)
    return close(state, CloseReason.REFUSED)


def _received(state: State, event: FrameReceived, moment: Moment) -> Step:
    """Rule C1, in its order: other scope, terminal, then what the phase makes of the rest."""
    frame = read_frame(event.payload, event.size, state.scope.scope_id, state.scope.session_id, _epoch(state))
    if isinstance(frame, Foreign):
        return state, ()
    if isinstance(frame, Terminal):
        return close(state, CloseReason.ENDED)
    state = _frame_counted(state, frame)
    match state.phase:
        case Reading():
            return _received_while_reading(state, state.phase, frame, moment)
        case Live():
            return _received_while_live(state, state.phase, frame, moment)
        case Offline() | Waiting() | Subscribing() | Closed():
            return state, ()
        case _:
            assert_never(state.phase)


def _epoch(state: State) -> str:
    """The epoch whose frames continue this phase; empty where no frame does."""
    match state.phase:
        case Reading(epoch=epoch):
            return epoch
        case Live():
            return _shown(state).epoch
        case Offline() | Waiting() | Subscribing() | Closed():
            return ""
        case _:
            assert_never(state.phase)


def _shown(state: State) -> Loaded:
    if state.held is None:
        raise AssertionError("a live scope shows the pages that made it live")
    return state.held


def _frame_counted(state: State, frame: FrameForScope) -> State:
    match frame:
        case Change(operations=operations):
            return counted(state, frames=1, coverage=0 if operations else 1)
        case Reset() | OtherEpoch(reset=True):
            return counted(state, resets=1)
        case Check() | Malformed() | OtherEpoch():
            return state
        case _:
            assert_never(frame)


def _received_while_reading(state: State, reading: Reading, frame: FrameForScope, moment: Moment) -> Step:
    match frame:
        case Malformed() | Reset():
            return broken(state, reading, moment)
        case OtherEpoch():
            return repair(state, moment, spread=EPOCH_SPREAD)
        case Check():
            return noted(state, reading, frame, moment)
        case Change():
            return buffered(state, reading, frame, moment)
        case _:
            assert_never(frame)


def _received_while_live(state: State, live: Live, frame: FrameForScope, moment: Moment) -> Step:
    match frame:
        case Malformed() | Reset():
            return repair(state, moment)
        case OtherEpoch():
            return repair(state, moment, spread=EPOCH_SPREAD)
        case Check():
            return checked(state, live, _shown(state), frame, moment)
        case Change():
            return followed(state, live, _shown(state), frame, moment)
        case _:
            assert_never(frame)


def _answered(state: State, event: MessagesRead | TurnsRead | PageFailed, moment: Moment) -> Step:
    if isinstance(event, PageFailed) and event.status in UNAUTHENTICATED and _awaits(state, event.read):
        return close(state, CloseReason.UNAUTHENTICATED)
    match state.phase:
        case Reading():
            if isinstance(event, PageFailed):
                return page_failed(state, state.phase, event, moment)
            return page_read(state, state.phase, event, moment)
        case Live():
            return _answered_while_live(state, state.phase, event, moment)
        case Offline() | Waiting() | Subscribing() | Closed():
            return state, ()
        case _:
            assert_never(state.phase)


def _awaits(state: State, read: int) -> bool:
    match state.phase:
        case Reading(messages_pending=messages, turns_pending=turns):
            return read in {pending.read for pending in (messages, turns) if pending is not None}
        case Live(load=load):
            return load is not None and load.read == read
        case Offline() | Waiting() | Subscribing() | Closed():
            return False
        case _:
            assert_never(state.phase)


def _answered_while_live(
    state: State, live: Live, event: MessagesRead | TurnsRead | PageFailed, moment: Moment
) -> Step:
    match event:
        case MessagesRead():
            return more_read(state, live, _shown(state), event, moment)
        case PageFailed():
            return more_failed(state, live, event, moment)
        case TurnsRead():
            return state, ()
        case _:
            assert_never(event)


def _load_more(state: State, moment: Moment) -> Step:
    match state.phase:
        case Live():
            return more_wanted(state, state.phase, _shown(state), moment)
        case Offline() | Waiting() | Subscribing() | Reading() | Closed():
            return state, ()
        case _:
            assert_never(state.phase)


def _tick(state: State, moment: Moment) -> Step:
    match state.phase:
        case Waiting(due):
            return begin(state, moment.now) if moment.now >= due else (state, ())
        case Reading():
            return waited(state, state.phase, moment)
        case Live():
            return grace_ended(state, state.phase, _shown(state), moment)
        case Offline() | Subscribing() | Closed():
            return state, ()
        case _:
            assert_never(state.phase)
