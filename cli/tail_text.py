"""The texts of rows that `tail` shows: times of this machine, pieces of content, and whether a text still grows."""

from contextlib import suppress
from datetime import UTC, datetime, tzinfo

from client.range import Row, RowChange
from shared.contracts.wire import CoreMessage, CoreTurn
from shared.times import microseconds, parse_time

CONTENT_CHARACTERS = 160
"""Longest piece of a message's content on a line."""


def one_line(text: str, width: int = CONTENT_CHARACTERS) -> str:
    """The beginning of a text in one line, with an ellipsis where that is not all."""
    # Cut first: a message may hold megabytes.
    joined = _plain(text[: 4 * width])
    return joined if len(joined) <= width and len(text) <= 4 * width else joined[: width - 1] + "…"


def last_part(text: str, width: int = CONTENT_CHARACTERS) -> str:
    """The end of a text in one line: where a text that grows changes."""
    joined = _plain(text[-4 * width :])
    return joined if len(joined) <= width and len(text) <= 4 * width else "…" + joined[len(joined) - width + 1 :]


def _plain(text: str) -> str:
    """White space and control characters drawn together: a terminal must not be steered by what it shows."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


class Clock:
    """Local time. `zone` None: this machine's. `now`: when it is, for a day that is not today's."""

    def __init__(self, zone: tzinfo | None = None, now: datetime | None = None) -> None:
        self._zone = zone
        self._now = now

    def text(self, stamp: str) -> str:
        """The time of day, and before it the date when that is not today."""
        moment = parse_time(stamp)
        # A zone may carry the first and the last day of all out of the calendar: these stay in UTC.
        with suppress(OverflowError, ValueError):
            moment = moment.astimezone(self._zone)
        today = (self._now or datetime.now(UTC)).astimezone(self._zone).date()
        return f"{moment:%H:%M:%S}" if moment.date() == today else f"{moment.date()} {moment:%H:%M:%S}"


def stamp(row: Row) -> str:
    """When what the row says happened: a turn that is completed says that."""
    match row.body:
        case CoreMessage() as message:
            return message.created_at
        case CoreTurn() as turn:
            return turn.completed_at or turn.started_at


def in_time(row: Row) -> tuple[int, str]:
    """The order in which rows are shown."""
    return microseconds(stamp(row)), row.id


class Growing:
    """Which messages grow: those that are shown with more text than before, as long as they change in no other way."""

    def __init__(self) -> None:
        self._lengths: dict[str, int] = {}
        self._growing: set[str] = set()

    def __contains__(self, message_id: str) -> bool:
        return message_id in self._growing

    def note(self, change: RowChange) -> None:
        """Takes in what became of a row."""
        if change.entity != "message":
            return
        if change.row is None or not isinstance(change.row.body, CoreMessage):
            self._lengths.pop(change.id, None)
            self._growing.discard(change.id)
            return
        length, before = len(change.row.body.content), self._lengths.get(change.id)
        self._lengths[change.id] = length
        if before is not None and length > before:
            self._growing.add(change.id)
        else:
            self._growing.discard(change.id)
