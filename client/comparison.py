"""Whether what a follower shows equals the source: the same rows, of one filter, at one revision."""

import asyncio
from dataclasses import dataclass, field
from enum import Enum

from client.connection import Connection
from client.events import CloseReason
from client.follower import Follower, ScopeClosed
from client.http_pages import PageRefused
from client.source import READ_AGAIN_AFTER, Difference, SourceRows, difference, read_source
from client.state import State

GONE = frozenset({CloseReason.REMOVED, CloseReason.ENDED, CloseReason.NOT_FOUND})
"""How a scope may close on a session that the source does not have for its reader."""


class Outcome(Enum):
    """What a comparison found."""

    EQUAL = "equal"
    DIFFERENT = "different"  # at one revision, rows differ
    BEHIND = "behind"  # the follower did not reach the source in time
    REMOVED = "removed"  # follower and source agree that the session is gone, or not this reader's to see
    CLOSED = "closed"  # the follower gave up, though the source has the session


@dataclass(frozen=True, slots=True)
class Comparison:
    """`revision`: the source's when the rows were compared; None where they were not. `difference`: there."""

    outcome: Outcome
    revision: int | None = None
    difference: Difference = field(default_factory=Difference)


async def compare(connection: Connection, follower: Follower, seconds: float) -> Comparison:
    """Compares as soon as both stand at one revision, everything loaded; a source that goes on changing is read again.

    Waits at most `seconds`; then what was found at the last reading of the source counts.
    """
    last: list[SourceRows] = []
    try:
        async with asyncio.timeout(seconds):
            while True:
                found = await _compare_once(connection, follower, last)
                if found is not None:
                    return found
                await asyncio.sleep(READ_AGAIN_AFTER)
    except TimeoutError:
        if not last:
            return Comparison(Outcome.BEHIND)
        return _compared(follower.state, last[-1], Outcome.BEHIND)


async def _compare_once(connection: Connection, follower: Follower, last: list[SourceRows]) -> Comparison | None:
    """What one reading of the source says; None when it says nothing yet."""
    try:
        source = await read_source(connection, follower.state.scope.session_id)
    except PageRefused as refused:
        gone = refused.status == 404 and follower.state.closed in GONE
        return Comparison(Outcome.REMOVED) if gone else None
    last[:] = [source]
    try:
        state = await follower.wait_until(lambda state: _has_reached(state, source))
    except ScopeClosed:
        return await _closed(connection, follower)
    if state.held is None or (state.held.epoch, state.held.revision) != (source.epoch, source.revision):
        return None
    return _compared(state, source, Outcome.DIFFERENT)


def _has_reached(state: State, source: SourceRows) -> bool:
    if not state.live or state.held is None or state.held.has_more:
        return False
    return state.held.epoch != source.epoch or state.held.revision >= source.revision


async def _closed(connection: Connection, follower: Follower) -> Comparison | None:
    """A follower that closed is right when the source, asked after that, has no such session."""
    try:
        await read_source(connection, follower.state.scope.session_id)
    except PageRefused as refused:
        return Comparison(Outcome.REMOVED) if refused.status == 404 else None
    return Comparison(Outcome.CLOSED)


def _compared(state: State, source: SourceRows, otherwise: Outcome) -> Comparison:
    low = None if state.held is None else state.held.messages.low
    shown = () if state.held is None else state.held.rows()
    found = difference(source.within(state.scope.filter, low), shown)
    equal = not found and otherwise is Outcome.DIFFERENT
    return Comparison(Outcome.EQUAL if equal else otherwise, source.revision, found)
