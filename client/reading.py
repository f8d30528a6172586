"""The reading phase: pages come in, frames are held for them, and both together make the rows that are shown (C2 to
C5).
"""

from dataclasses import replace
from typing import assert_never

from client.bridge import Apart, Level, bridge, moved
from client.buffer import Buffer
from client.events import Effect, MessagesRead, PageFailed, ReadMessages, ReadTurns, RowsChanged, TurnsRead
from client.following import CHECK_GRACE, GONE_CURSOR, followed
from client.frames import Change, Check
from client.range import Cursor, Loaded, Part, changes_between, joined, message_part, row_of, turn_part
from client.repair import EPOCH_SPREAD, Moment, Step, again, counted, gone, repair
from client.state import Expected, Live, Pending, Reading, State
from shared.contracts.rows import Entity

PAGES_PER_REPAIR = 3
"""Most pages of messages that a repair reads (C5). A longer range is cut there and comes again with `LoadMore`."""

REREADS = 3
"""Pages read again in one cycle because no frames led from them to the others; after that the scope subscribes anew."""

BRIDGE_SECONDS = 1.0
"""Seconds for which frames may still lead from one part to another before the lower one is read again."""


def opened(state: State, epoch: str, revision: int) -> Step:
    """Reads the first page of both kinds. The reply's revision is the least that a page may have, and no more than
    that (C2).
    """
    floor = revision
    if state.held is not None and state.held.epoch == epoch:
        floor = max(floor, state.held.revision)
    return _asked(state, Reading(epoch, floor), frozenset[Entity](("message", "turn")))


def _asked(state: State, reading: Reading, entities: frozenset[Entity]) -> Step:
    """Asks for the first page of each kind, in place of what was read of it."""
    effects: list[Effect] = []
    read = state.next_read
    if "message" in entities:
        reading = replace(reading, messages=(), messages_pending=Pending(read))
        effects.append(ReadMessages(read))
        read += 1
    if "turn" in entities:
        reading = replace(reading, turns=(), turns_pending=Pending(read))
        effects.append(ReadTurns(read))
        read += 1
    state = replace(counted(state, reads=len(effects)), phase=reading, next_read=read)
    return state, tuple(effects)


def buffered(state: State, reading: Reading, frame: Change, moment: Moment) -> Step:
    """Holds a frame behind those that came before it (C4); without room for it, this cycle has lost frames."""
    if reading.broken:
        return state, ()
    buffer = reading.buffer.adding(frame, moment.now)
    if buffer is None:
        return broken(state, reading, moment)
    return settled(state, replace(reading, buffer=buffer), moment)


def broken(state: State, reading: Reading, moment: Moment) -> Step:
    """Marks a cycle that lost frames: it may still show what its pages prove, and another one follows (C1)."""
    return settled(state, replace(reading, buffer=Buffer(), broken=True), moment)


def noted(state: State, reading: Reading, check: Check, moment: Moment) -> Step:
    """Remembers what a check told until the pages are there. A source older than they must be: history broke."""
    if check.revision < reading.floor:
        return broken(state, reading, moment)
    known = reading.expected
    expected = Expected(
        max(check.revision, known.revision if known else 0), known.by if known else moment.now + CHECK_GRACE
    )
    return replace(state, phase=replace(reading, expected=expected)), ()


def waited(state: State, reading: Reading, moment: Moment) -> Step:
    """What time does: a buffer grows too old, or no frames came that lead from one part to another."""
    if not reading.broken and reading.buffer.due is not None and moment.now >= reading.buffer.due:
        return broken(state, reading, moment)
    if reading.bridge_by is not None and moment.now >= reading.bridge_by:
        return settled(state, reading, moment)
    return state, ()


def page_read(state: State, reading: Reading, event: MessagesRead | TurnsRead, moment: Moment) -> Step:
    """Takes a page in and asks for the next one of its kind, or settles when it was the last that was awaited."""
    pending = reading.messages_pending if isinstance(event, MessagesRead) else reading.turns_pending
    if pending is None or pending.read != event.read:
        return state, ()
    if event.epoch != reading.epoch:
        return repair(state, moment, spread=EPOCH_SPREAD)
    if event.revision < reading.floor or (event.has_more and not event.rows):
        return again(state, moment)
    scope_filter = state.scope.filter
    cursor: Cursor | None = None
    match event:
        case MessagesRead():
            part = message_part(event.rows, event.has_more, event.revision, pending.cursor, scope_filter)
            messages = (*reading.messages, part)
            if event.has_more and len(messages) < PAGES_PER_REPAIR and _reaches_below(state.held, part):
                cursor = _cursor(event)
            following = None if cursor is None else Pending(state.next_read, cursor)
            reading = replace(reading, messages=messages, messages_pending=following)
        case TurnsRead():
            part = turn_part(event.rows, event.has_more, event.revision, pending.cursor, scope_filter)
            if event.has_more:
                cursor = _cursor(event)
            following = None if cursor is None else Pending(state.next_read, cursor)
            reading = replace(reading, turns=(*reading.turns, part), turns_pending=following)
        case _:
            assert_never(event)
    if cursor is None:
        return settled(state, reading, moment)
    read = state.next_read
    state = replace(counted(state, reads=1), phase=reading, next_read=read + 1)
    return state, (ReadMessages(read, cursor.id) if isinstance(event, MessagesRead) else ReadTurns(read, cursor.id),)


def _cursor(event: MessagesRead | TurnsRead) -> Cursor:
    row = row_of(event.rows[-1])
    return Cursor(row.id, row.key)


def _reaches_below(held: Loaded | None, part: Part) -> bool:
    """Whether the range that was loaded goes on below a page (C5)."""
    if held is None or part.low is None:
        return False
    return held.messages.low is None or held.messages.low < part.low


def page_failed(state: State, reading: Reading, event: PageFailed, moment: Moment) -> Step:
    """Tries the cycle again, later where the gateway was at fault. Only a first page proves that the session is not
    there: a later one may lack its cursor's row.
    """
    for pending in (reading.messages_pending, reading.turns_pending):
        if pending is not None and pending.read == event.read:
            if event.status == 404 and pending.cursor is None:
                return gone(state)
            return repair(state, moment) if event.status in GONE_CURSOR else again(state, moment, event.retry_after)
    return state, ()


def settled(state: State, reading: Reading, moment: Moment) -> Step:
    """Goes live when every page is there and stands at one revision, or does what leads to that."""
    if not reading.complete:
        return replace(state, phase=reading), ()
    outcome = bridge((*reading.messages, *reading.turns), reading.buffer.frames, state.scope.filter)
    match outcome:
        case Level():
            if _cursor_moved(reading):
                return repair(state, moment)
            return _live(state, reading, outcome, moment)
        case Apart():
            if reading.broken:
                return repair(state, moment)
            return _apart(state, reading, outcome, moment)
        case _:
            assert_never(outcome)


def _cursor_moved(reading: Reading) -> bool:
    return any(
        part.cursor is not None and moved(part.cursor, part.entity, reading.buffer.frames)
        for part in (*reading.messages, *reading.turns)
    )


def _apart(state: State, reading: Reading, apart: Apart, moment: Moment) -> Step:
    """Waits for the frames that lead from the lower parts to the others, for a while; then reads the lower ones again
    (C3).
    """
    if not apart.gap and (reading.bridge_by is None or moment.now < reading.bridge_by):
        by = moment.now + BRIDGE_SECONDS if reading.bridge_by is None else reading.bridge_by
        return replace(state, phase=replace(reading, bridge_by=by)), ()
    if reading.rereads >= REREADS:
        return repair(state, moment)
    again = replace(reading, rereads=reading.rereads + 1, bridge_by=None)
    return _asked(state, again, apart.lower)


def _live(state: State, reading: Reading, level: Level, moment: Moment) -> Step:
    """Commits the pages, and only now has an applied revision (C2); then takes the frames that were not needed for
    that.
    """
    revision = level.parts[0].revision
    messages = joined(part for part in level.parts if part.entity == "message")
    if state.held is not None:
        # Whole pages rarely end where the range did. What lies below comes with `LoadMore`, as before the repair.
        messages = messages.above(state.held.messages.low)
    turns = joined(part for part in level.parts if part.entity == "turn")
    held = Loaded(reading.epoch, revision, messages, turns)
    changes = changes_between(state.held, held)
    expected = reading.expected if reading.expected and reading.expected.revision > revision else None
    state = replace(state, held=held, phase=Live(expected), spread=False)
    effects: tuple[Effect, ...] = (RowsChanged(changes),) if changes else ()
    if reading.broken:
        state, more = repair(state, moment)
        return state, effects + more
    for frame in level.rest:
        if not isinstance(state.phase, Live) or state.held is None:
            break
        state, more = followed(state, state.phase, state.held, frame, moment)
        effects += more
    return state, effects
