"""A planned session as it happens: what to write at which moment, and in what portions a text is streamed. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from math import ceil

from cli.transcripts.plan import PlannedMessage, PlannedSession, PlannedTurn

MICROSECONDS = 1_000_000

PORTION_CHARACTERS = 60
"""Usual portion of a streamed text: about what an agent writes between two flushes."""
LONGEST_PORTION = 4096
PORTION_SECONDS = 0.05
"""The write boundary joins appends that are closer than this: portions need not be."""
FEWEST_PORTIONS = 4


class Moment(IntEnum):
    """What happens; the order of what happens at one time in one turn."""

    PROMPTS = 0
    SAYS = 1
    RESULT = 2
    COMPLETES = 3


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happens. `pause`: seconds until the next step, before speed. `turn`: the one it starts or ends."""

    moment: Moment
    pause: float
    message: PlannedMessage | None = None
    turn: PlannedTurn | None = None


def timeline(session: PlannedSession, max_gap: float) -> tuple[Step, ...]:
    """All steps in order; a pause longer than `max_gap` seconds is cut to it."""
    # A turn without work ends when it starts, and may end when the next one starts: its number puts both in order.
    happened: list[tuple[int, int, Moment, PlannedMessage | None, PlannedTurn | None]] = [
        (turn.completed_at, number, Moment.COMPLETES, None, turn) for number, turn in enumerate(session.turns)
    ]
    for message in session.messages:
        number = -1 if message.turn is None else message.turn
        if message.author == "user" and message.turn is not None:
            happened.append((message.created_at, number, Moment.PROMPTS, message, session.turns[message.turn]))
        else:
            happened.append((message.created_at, number, Moment.SAYS, message, None))
        if message.result is not None:
            happened.append((message.ended_at, number, Moment.RESULT, message, None))
    happened.sort(key=lambda one: one[:3])
    pauses = [min((later[0] - earlier[0]) / MICROSECONDS, max_gap) for earlier, later in pairwise(happened)]
    return tuple(
        Step(moment, pause, message, turn)
        for (_, _, moment, message, turn), pause in zip(happened, [*pauses, 0.0], strict=False)
    )


def portions(text: str, seconds: float) -> Sequence[str]:
    """The text cut for streaming within `seconds`: portions of about 60 characters, larger ones when time is short."""
    usual = ceil(len(text) / PORTION_CHARACTERS)
    timely = max(FEWEST_PORTIONS, int(seconds / PORTION_SECONDS))
    size = min(LONGEST_PORTION, max(PORTION_CHARACTERS, ceil(len(text) / min(usual, timely)) if text else 1))
    return [text[start : start + size] for start in range(0, len(text), size)] or [""]
