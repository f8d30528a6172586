"""The live phase: each frame continues what is shown, or proves that something is missing; older pages join in (C1,
C6).
"""

from dataclasses import replace

from client.bridge import moved
from client.events import Effect, LoadEnded, MessagesRead, PageFailed, ReadMessages, RowsChanged
from client.frames import Change, Check
from client.range import Cursor, Loaded, changes_between, changes_by, joined, message_part
from client.repair import EPOCH_SPREAD, Moment, Step, counted, repair, spread_out
from client.state import Expected, Live, Load, State

CHECK_GRACE = 1.0
"""Seconds that a change may come later than the check that told of it."""

GONE_CURSOR = frozenset({400, 404, 409})
"""Statuses that say that the row next to which a page was asked for is no longer there, or not where it was."""


def followed(state: State, live: Live, held: Loaded, frame: Change, moment: Moment) -> Step:
    """What a change makes of a live scope: nothing new, a gap, or its operations applied and its revision reached.

    A page on its way gets a copy (C6). When they are too many to keep, it is given up, to be asked for again.
    """
    if frame.revision <= held.revision:
        return counted(state, duplicates=1), ()
    if frame.base != held.revision:
        return repair(counted(state, gaps=1), moment)
    scope_filter = state.scope.filter
    after = Loaded(
        held.epoch,
        frame.revision,
        held.messages.applying(frame.operations, frame.revision, scope_filter),
        held.turns.applying(frame.operations, frame.revision, scope_filter),
    )
    changes = changes_by(frame.operations, held, after)
    effects: tuple[Effect, ...] = (RowsChanged(changes),) if changes else ()
    expected = live.expected if live.expected and live.expected.revision > frame.revision else None
    advanced = replace(state, held=after, phase=Live(expected, live.load))
    if live.load is None:
        return advanced, effects
    copies = live.load.copies.adding(frame, moment.now)
    if copies is None:
        return replace(advanced, phase=Live(expected)), (*effects, LoadEnded(None))
    merged, more_effects = _merged(advanced, Live(expected), after, replace(live.load, copies=copies))
    return merged, effects + more_effects


def checked(state: State, live: Live, held: Loaded, check: Check, moment: Moment) -> Step:
    """Compares and never advances: an older source: history broke; a newer one: its frames have a second to come."""
    if check.revision < held.revision:
        return repair(state, moment)
    if check.revision == held.revision:
        return state, ()
    expected = Expected(check.revision, moment.now + CHECK_GRACE)
    if live.expected is not None:
        expected = Expected(max(check.revision, live.expected.revision), live.expected.by)
    return replace(state, phase=replace(live, expected=expected)), ()


def grace_ended(state: State, live: Live, held: Loaded, moment: Moment) -> Step:
    """Repairs a scope that has not reached in time what a check told."""
    if live.expected is None or moment.now < live.expected.by:
        return state, ()
    if live.expected.revision > held.revision:
        return repair(counted(state, gaps=1), moment)
    return replace(state, phase=replace(live, expected=None)), ()


def more_wanted(state: State, live: Live, held: Loaded, moment: Moment) -> Step:
    """Asks for the page below the loaded range, if there is one and it is not on its way already."""
    if live.load is not None or not held.has_more:
        return state, ()
    oldest = held.messages.oldest()
    if oldest is None:
        started, effects = repair(state, moment)
        return started, (LoadEnded(None), *effects)
    return _asked(state, live, held, Cursor(oldest.id, oldest.key))


def _asked(state: State, live: Live, held: Loaded, cursor: Cursor) -> Step:
    read = state.next_read
    load = Load(read, cursor, since=held.revision)
    state = replace(counted(state, reads=1), phase=replace(live, load=load), next_read=read + 1)
    return state, (ReadMessages(read, before=cursor.id),)


def more_read(state: State, live: Live, held: Loaded, event: MessagesRead, moment: Moment) -> Step:
    """Takes the older page in: at once when applied has reached its revision, else as soon as it does."""
    load = live.load
    if load is None or load.read != event.read:
        return state, ()
    if event.epoch != held.epoch:
        return repair(state, moment, spread=EPOCH_SPREAD)
    if event.revision < load.since:
        return replace(state, phase=replace(live, load=None)), (LoadEnded(None),)
    if event.has_more and not event.rows:
        return repair(state, moment)
    page = message_part(event.rows, event.has_more, event.revision, load.cursor, state.scope.filter)
    return _merged(state, live, held, replace(load, page=page))


def more_failed(state: State, live: Live, event: PageFailed, moment: Moment) -> Step:
    """Gives the older page up; reads again from the newest row when its cursor is gone. What the gateway could not
    serve is not asked for before it said, and then at a random moment, as repairs are (C7).
    """
    if live.load is None or live.load.read != event.read:
        return state, ()
    if event.status in GONE_CURSOR:
        return repair(state, moment)
    return replace(state, phase=replace(live, load=None)), (LoadEnded(None, spread_out(event.retry_after, moment)),)


def _merged(state: State, live: Live, held: Loaded, load: Load) -> Step:
    """Joins the page to the range once applied has reached its revision, after the copies above that revision (C6)."""
    page = load.page
    if page is None or page.revision > held.revision:
        return replace(state, phase=replace(live, load=load)), ()
    if moved(load.cursor, "message", load.copies.frames):
        return replace(state, phase=replace(live, load=None)), (LoadEnded(None),)
    for copy in load.copies.frames:
        if copy.revision > page.revision:
            page = page.applying(copy.operations, copy.revision, state.scope.filter)
    page = replace(page, revision=held.revision)
    after = replace(held, messages=replace(joined((held.messages, page)), cursor=None))
    changes = changes_between(held, after)
    state = replace(state, held=after, phase=replace(live, load=None))
    added = len(after.messages.rows) - len(held.messages.rows)
    return state, (*((RowsChanged(changes),) if changes else ()), LoadEnded(added))
