"""A followed conversation on a terminal: the newest rows, the newest at the bottom, and a footer."""

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.table import Table
from rich.text import Text

from cli.tail_lines import footer, message_cells, one_line
from client.range import RowChange
from client.state import State, Status
from shared.contracts.wire import CoreMessage

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

    def __init__(self, session: str, limit: int) -> None:
        self._session = session
        self._limit = limit
        self._state: State | None = None

    def show(self, state: State, changes: tuple[RowChange, ...]) -> None:  # noqa: ARG002 - a screen draws states
        """Keeps the state for the next drawing."""
        self._state = state

    def render(self) -> "_Drawing":
        """What the display asks for at each refresh."""
        return _Drawing(self._session, self._limit, self._state)


class _Drawing:
    def __init__(self, session: str, limit: int, state: State | None) -> None:
        self._session = session
        self._limit = limit
        self._state = state

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._state is None:
            yield Text(f"{self._session}: connecting", style="yellow")
            return
        # A line for the footer, one for the prompt below it.
        room = max(1, min(self._limit, console.height - 2))
        yield Group(self._rows(self._state, room), Text(footer(self._state), style=STYLES[self._state.status]))

    def _rows(self, state: State, room: int) -> Table:
        table = Table(box=None, show_header=False, expand=True, padding=(0, 1))
        for style in ("dim", "cyan", "dim"):
            table.add_column(style=style, no_wrap=True)
        table.add_column(style="magenta", no_wrap=True, justify="right")
        table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
        ordered = () if state.held is None else state.held.messages.ordered()
        for row in ordered[-room:]:
            if isinstance(row.body, CoreMessage):
                # Text, not markup: content is shown as it is.
                table.add_row(*message_cells(row.body), Text(one_line(row.body.content)))
        return table
