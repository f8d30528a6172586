"""A followed conversation on a terminal: the newest rows, the newest at the bottom, and a footer."""

from heapq import nlargest

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.table import Table
from rich.text import Text

from cli.tail_lines import footer, message_cells, turn_text
from cli.tail_text import Clock, Growing, in_time, last_part, one_line, stamp
from client.range import Row, RowChange
from client.state import State, Status
from shared.contracts.wire import CoreMessage, CoreTurn

STYLES: dict[Status, str] = {
    "live": "green",
    "loading": "yellow",
    "repairing": "yellow",
    "disconnected": "red",
    "closed": "red",
}


class Screen:
    """Holds the last state and draws it when it is asked to; a state is drawn at most as often as the display
    refreshes.
    """

    def __init__(self, session: str, limit: int, clock: Clock | None = None) -> None:
        self._session = session
        self._limit = limit
        self._clock = clock or Clock()
        self._growing = Growing()
        self._state: State | None = None

    def show(self, state: State, changes: tuple[RowChange, ...]) -> None:
        """Keeps the state for the next drawing."""
        self._state = state
        for change in changes:
            self._growing.note(change)

    def render(self) -> "_Drawing":
        """What the display asks for at each refresh."""
        return _Drawing(self._session, self._limit, self._state, self._growing, self._clock)


class _Drawing:
    def __init__(self, session: str, limit: int, state: State | None, growing: Growing, clock: Clock) -> None:
        self._session = session
        self._limit = limit
        self._state = state
        self._growing = growing
        self._clock = clock

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._state is None:
            yield Text(f"{self._session}: connecting", style="yellow")
            return
        # A line for the footer, one for the prompt below it.
        room = max(1, min(self._limit, console.height - 2))
        yield Group(self._table(self._state, room), Text(footer(self._state), style=STYLES[self._state.status]))

    def _table(self, state: State, room: int) -> Table:
        table = Table(box=None, show_header=False, expand=True, padding=(0, 1))
        for style in ("dim", "cyan", "dim"):
            table.add_column(style=style, no_wrap=True)
        table.add_column(style="magenta", no_wrap=True, justify="right")
        table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
        for row in _newest(state, room):
            # Text, not markup: content is shown as it is.
            match row.body:
                case CoreMessage() as message:
                    piece = _End(message.content) if message.id in self._growing else Text(one_line(message.content))
                    table.add_row(*message_cells(message, self._clock), piece)
                case CoreTurn() as turn:
                    table.add_row(self._clock.text(stamp(row)), "", "turn", "", Text(turn_text(turn), style="dim"))
        return table


def _newest(state: State, room: int) -> list[Row]:
    """The newest rows, without the turns of messages that are not loaded."""
    if state.held is None:
        return []
    low = state.held.messages.low
    messages = nlargest(room, state.held.messages.rows.values(), key=lambda row: row.key)
    turns = nlargest(room, state.held.turns.rows.values(), key=lambda row: row.key)
    shown = (row for row in (*messages, *turns) if low is None or row.key >= low)
    return sorted(shown, key=in_time)[-room:]


class _End:
    """The end of a text, as much as its column has room for."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        piece = last_part(self._text, max(2, options.max_width))
        while cell_len(piece) > options.max_width and len(piece) > 1:
            piece = "…" + piece.removeprefix("…")[1:]
        yield Text(piece, no_wrap=True, overflow="crop")
