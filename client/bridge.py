"""Bringing parts that were read at different revisions to one, by the frames that came meanwhile (C3)."""

from collections.abc import Iterable
from dataclasses import dataclass

from client.frames import Change
from client.range import Cursor, Filter, Part, row_of
from shared.contracts.rows import Entity


@dataclass(frozen=True, slots=True)
class Level:
    """All parts stand at one revision. `rest`: frames that were not needed for it."""

    parts: tuple[Part, ...]
    rest: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Apart:
    """The parts of `lower` are behind and the frames so far do not lead further. `gap`: nor will those that come."""

    lower: frozenset[Entity]
    gap: bool


def bridge(parts: tuple[Part, ...], frames: tuple[Change, ...], scope_filter: Filter) -> Level | Apart:
    """Applies each frame to the parts that are behind it, and to no other, until all stand at one revision.

    A frame applies to a part when it begins at or before the part's revision and ends above it: operations are
    states, not steps.
    """
    for number, frame in enumerate(frames):
        if _level(parts):
            return Level(parts, frames[number:])
        missed = frozenset(part.entity for part in parts if part.revision < frame.base)
        if missed:
            return Apart(missed, gap=True)
        parts = tuple(
            part.applying(frame.operations, frame.revision, scope_filter) if part.revision < frame.revision else part
            for part in parts
        )
    if _level(parts):
        return Level(parts, ())
    highest = max(part.revision for part in parts)
    return Apart(frozenset(part.entity for part in parts if part.revision < highest), gap=False)


def _level(parts: tuple[Part, ...]) -> bool:
    return len({part.revision for part in parts}) == 1


def moved(cursor: Cursor, entity: Entity, frames: Iterable[Change]) -> bool:
    """Whether a frame gives the cursor's row another place in the order: a page read next to it may then miss rows
    between both.
    """
    return any(
        row_of(body).key != cursor.key
        for frame in frames
        for operation in frame.operations
        if operation.entity == entity and operation.id == cursor.id
        for body in (operation.message or operation.turn,)
        if body is not None
    )
