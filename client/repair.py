"""Starting over: when a scope reads its range again, and when it stops for good."""

from dataclasses import dataclass, replace

from client.events import Close, CloseReason, Effect, LoadEnded, Position, Resubscribe
from client.range import Loaded
from client.state import Closed, Live, State, Subscribing, Waiting

REPAIR_SPACING = 1.0
"""Least seconds between the beginnings of two repairs of a scope."""

RETRY_AFTER = 1.0
"""Least seconds until something is tried again after a refused subscription or a page that could not be read."""

EPOCH_SPREAD = 2.0
"""Seconds over which scopes spread their repairs when the epoch has changed for all of them (C7)."""

RECONNECT_SPREAD = 1.0
"""Likewise after a lost connection, on top of the random delay of the reconnect itself."""


@dataclass(frozen=True, slots=True)
class Moment:
    """When an event happens. `now`: seconds of any steady clock. `chance`: a random number, 0 <= chance < 1."""

    now: float
    chance: float


Step = tuple[State, tuple[Effect, ...]]
"""The next state, and what to do about it, in this order."""


def repair(state: State, moment: Moment, *, after: float = 0.0, spread: float = 0.0) -> Step:
    """Lets a read replace the loaded range, in `after` seconds or a second after the last repair began, whichever is
    later.

    `spread`: seconds over which this repair is spread at random, unless it was already (C7).
    """
    due = max(moment.now + after, state.repaired_at + REPAIR_SPACING)
    if spread and not state.spread:
        due = max(due, moment.now + moment.chance * spread)
    waiting = replace(state, phase=Waiting(due), spread=state.spread or spread > 0)
    if due > moment.now:
        return waiting, abandoned(state)
    begun, effects = begin(waiting, moment.now)
    return begun, abandoned(state) + effects


def again(state: State, moment: Moment, told: float = 0.0) -> Step:
    """Tries a cycle again that the gateway could not serve: not before it said, and spread out from then on (C7)."""
    return repair(state, moment, after=spread_out(told, moment))


def spread_out(told: float, moment: Moment) -> float:
    """Seconds until the gateway is asked again that said so many: at a random moment in as many seconds after them.
    Those that were refused together do not come back together.
    """
    return max(RETRY_AFTER, told) * (1.0 + moment.chance)


def begin(state: State, now: float) -> Step:
    """Opens the scope anew; the reply starts the reads."""
    repairs = state.counters.repairs + (state.held is not None)
    counters = replace(state.counters, repairs=repairs)
    return replace(state, phase=Subscribing(), counters=counters, repaired_at=now), (Resubscribe(),)


def resume(state: State, held: Loaded) -> Step:
    """Opens the scope anew, to go on from what is shown (G6). That reads nothing, and needs no delay."""
    position = Position(held.epoch, held.revision)
    return replace(state, phase=Subscribing(position)), (Resubscribe(position),)


def close(state: State, reason: CloseReason) -> Step:
    """Ends the scope; what it showed stays."""
    return replace(state, phase=Closed(reason)), (*abandoned(state), Close(reason))


def abandoned(state: State) -> tuple[Effect, ...]:
    """What leaving the phase says about a page that was asked for by `LoadMore`."""
    return (LoadEnded(None),) if isinstance(state.phase, Live) and state.phase.load is not None else ()


def gone(state: State) -> Step:
    """Ends the scope because its session is not there (any more), or not this reader's to see."""
    return close(state, CloseReason.NOT_FOUND if state.held is None else CloseReason.ENDED)


def counted(state: State, **more: int) -> State:
    """The state with some counters advanced."""
    counters = replace(state.counters, **{name: getattr(state.counters, name) + by for name, by in more.items()})
    return replace(state, counters=counters)
