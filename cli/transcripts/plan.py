"""The plan of a file: which sessions, turns and messages it makes, in order, with ids that every reading repeats.

A plan holds places in the file and no contents, so that its size follows the number of lines, not their length.
"""

import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

from cli.transcripts.lines import MAX_LINE_BYTES, Place
from cli.transcripts.parsing import BadLine, Block, Entry, NotStored, Part, parse_line

_NAMES = uuid.UUID("5f0c2d5e-2f6b-5a0e-9a35-0d4b2f1f7c11")

# A tool that a name does not tell apart is a plain call.
_TOOL_TYPES: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("edit", "multiedit", "write", "notebookedit"), "tool_edit")
    | dict.fromkeys(("read", "notebookread", "ls", "glob", "grep"), "tool_read")
    | dict.fromkeys(("bash", "bashoutput", "killshell", "shell", "powershell"), "tool_execute")
)


def stable_id(*parts: str) -> str:
    """The same id for the same parts, everywhere."""
    return str(uuid.uuid5(_NAMES, "\n".join(parts)))


def tool_type(name: str) -> str:
    """The message type of a tool use: tool_edit, tool_read, tool_execute or tool_call."""
    return _TOOL_TYPES.get(name.lower(), "tool_call")


@dataclass(frozen=True, slots=True)
class Piece:
    """One block of one line."""

    place: Place
    block: int


@dataclass(frozen=True, slots=True)
class PlannedMessage:
    """One message. `created_at`, `ended_at`: microseconds since 1970. `turn`: index into the session's turns.

    `pieces`: blocks whose texts, joined, are the content; for a tool, the use. `result`: the tool's answer.
    """

    id: str
    author: Literal["user", "agent"]
    type: str
    created_at: int
    ended_at: int
    turn: int | None
    pieces: tuple[Piece, ...]
    result: Piece | None = None
    sidechain: bool = False

    @property
    def line(self) -> int:
        """Number of the line that began it."""
        return self.pieces[0].place.number


@dataclass(frozen=True, slots=True)
class PlannedTurn:
    """The work that one prompt started. Microseconds since 1970; it ends at its last message, or at the next prompt."""

    id: str
    started_at: int
    completed_at: int


@dataclass(frozen=True, slots=True)
class PlannedSession:
    """One session, its messages in the order of time, then line, with strictly growing times."""

    session_id: str
    facts: Mapping[str, str]
    turns: tuple[PlannedTurn, ...]
    messages: tuple[PlannedMessage, ...]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A line of which something was left out, and why."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class FilePlan:
    """What a file holds. `transcript`: at least one line is one of a transcript. `not_stored`: counts by kind."""

    sessions: tuple[PlannedSession, ...]
    skipped: tuple[Skipped, ...]
    not_stored: Mapping[str, int]
    lines: int
    transcript: bool

    @property
    def message_types(self) -> Mapping[str, int]:
        """How many messages of each type are planned."""
        return Counter(message.type for session in self.sessions for message in session.messages)


@dataclass(slots=True)
class _Found:
    """One block as the first reading keeps it."""

    time: int
    piece: Piece
    key: str
    part: Part
    type: str
    ident: str
    blank: bool
    sidechain: bool

    @property
    def order(self) -> tuple[int, int, int]:
        return self.time, self.piece.place.number, self.piece.block


@dataclass(slots=True)
class _Session:
    facts: dict[str, str] = field(default_factory=dict)
    keys: set[str] = field(default_factory=set)
    found: list[_Found] = field(default_factory=list)


def plan_lines(lines: Iterable[tuple[Place, bytes | None]]) -> FilePlan:
    """Reads all lines once and plans what they make."""
    first = _FirstReading()
    count = 0
    for place, raw in lines:
        count += 1
        first.take(place, raw)
    planned = [_plan_session(session_id, found, first) for session_id, found in first.sessions.items()]
    return FilePlan(
        sessions=tuple(session for session in planned if session.messages),
        skipped=tuple(sorted(first.skipped, key=lambda skip: skip.line)),
        not_stored=dict(first.not_stored),
        lines=count,
        transcript=first.transcript,
    )


class _FirstReading:
    def __init__(self) -> None:
        self.sessions: defaultdict[str, _Session] = defaultdict(_Session)
        self.skipped: list[Skipped] = []
        self.not_stored: Counter[str] = Counter()
        self.transcript = False

    def take(self, place: Place, raw: bytes | None) -> None:
        if raw is None:
            self.skip(place, f"is longer than {MAX_LINE_BYTES >> 20} MiB ({place.length:,} bytes)")
            return
        if not raw.strip():
            self.not_stored["blank"] += 1
            return
        try:
            read = parse_line(raw)
        except BadLine as error:
            self.skip(place, str(error))
            return
        if isinstance(read, NotStored):
            self.transcript |= read.known
            self.not_stored[read.kind] += 1
            return
        self.transcript = True
        self._keep(place, read)

    def skip(self, place: Place, reason: str) -> None:
        self.skipped.append(Skipped(place.number, reason))

    def _keep(self, place: Place, entry: Entry) -> None:
        session = self.sessions[entry.session_id]
        if not session.keys:
            session.facts = entry.facts  # of the first line alone: a file that has grown names the same ones
        # A uuid that was seen before names another line: the number tells them apart.
        key = entry.key if entry.key and entry.key not in session.keys else f"line {place.number}"
        session.keys.add(key)
        for index, block in enumerate(entry.blocks):
            if block.part is Part.NOT_STORED:
                self.not_stored["block"] += 1
            else:
                session.found.append(_found(entry, Piece(place, index), key, block))


def _found(entry: Entry, piece: Piece, key: str, block: Block) -> _Found:
    types = {Part.PROMPT: "message", Part.TEXT: "message", Part.STATUS: "status", Part.THINKING: "thinking"}
    return _Found(
        time=entry.time,
        piece=piece,
        key=f"{key}.{piece.block}",
        part=block.part,
        type=types.get(block.part) or tool_type(block.name),
        ident=entry.reply if block.part is Part.TEXT else block.ident,
        blank=not block.text.strip(),
        sidechain=entry.sidechain,
    )


def _plan_session(session_id: str, session: _Session, first: _FirstReading) -> PlannedSession:
    found = sorted(session.found, key=lambda one: one.order)
    results = _results(found, first)
    messages: list[PlannedMessage] = []
    prompts: list[_Found] = []
    clock = 0
    for head, pieces in _joined(found, first):
        clock = max(head.time, clock + 1)
        if head.part is Part.PROMPT:
            prompts.append(head)
        result = results.get(head.ident) if head.part is Part.TOOL_USE else None
        messages.append(
            PlannedMessage(
                id=stable_id(session_id, head.key),
                author="user" if head.part is Part.PROMPT else "agent",
                type=head.type,
                created_at=clock,
                ended_at=max(clock, result.time if result else pieces[-1].time),
                turn=len(prompts) - 1 if prompts else None,
                pieces=tuple(one.piece for one in pieces),
                result=result.piece if result else None,
                sidechain=head.sidechain,
            )
        )
    return PlannedSession(session_id, session.facts, _turns(session_id, prompts, messages), tuple(messages))


def _results(found: list[_Found], first: _FirstReading) -> dict[str, _Found]:
    """The answer to each tool use: the first one; what answers nothing, or again, is left out and reported."""
    uses = {one.ident for one in found if one.part is Part.TOOL_USE}
    results: dict[str, _Found] = {}
    for one in found:
        if one.part is not Part.TOOL_RESULT:
            continue
        if one.ident not in uses:
            first.skip(one.piece.place, "holds the result of a tool use that is not in the file")
        elif one.ident in results:
            first.skip(one.piece.place, "holds a second result of one tool use")
        else:
            results[one.ident] = one
    return results


def _joined(found: list[_Found], first: _FirstReading) -> Iterator[tuple[_Found, list[_Found]]]:
    """Every message's first block with all its pieces; what holds no words is left out and counted."""
    replies: dict[str, list[_Found]] = {}
    for one in found:
        if one.part is Part.TEXT and one.ident:
            replies.setdefault(one.ident, []).append(one)
    uses: set[str] = set()
    for one in found:
        pieces = replies.get(one.ident, [one]) if one.part is Part.TEXT else [one]
        if one.part is Part.TOOL_RESULT or pieces[0] is not one:
            continue
        if one.part is Part.TOOL_USE:
            if one.ident in uses:
                first.skip(one.piece.place, "repeats a tool use that an earlier line holds")
                continue
            uses.add(one.ident)
        elif all(piece.blank for piece in pieces):
            first.not_stored["empty"] += 1
            continue
        yield one, pieces


def _turns(session_id: str, prompts: list[_Found], messages: list[PlannedMessage]) -> tuple[PlannedTurn, ...]:
    turns: list[PlannedTurn] = []
    for message in messages:
        if message.turn is None:
            continue
        if message.author == "user":
            if turns:
                turns[-1] = replace(turns[-1], completed_at=min(turns[-1].completed_at, message.created_at))
            turn_id = stable_id(session_id, prompts[message.turn].key, "turn")
            turns.append(PlannedTurn(turn_id, message.created_at, message.created_at))
        turns[-1] = replace(turns[-1], completed_at=max(turns[-1].completed_at, message.ended_at))
    return tuple(turns)
