"""One readable log for every program of the stack: time, who says it, what it says."""

import os
import sys
from datetime import datetime
from typing import TextIO

NAME_WIDTH = 11
COLOURS = ("36", "35", "34", "32", "33", "96", "95", "94")
WARNING = "31"


class Log:
    """Writes lines to one stream, in colour on a terminal unless `NO_COLOR` is set.

    A reader who goes away ends only the output.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stdout
        self._colour = self._stream.isatty() and not os.environ.get("NO_COLOR")
        self._given: dict[str, str] = {}

    def line(self, who: str, text: str) -> None:
        """One line of the program `who`, as it wrote it."""
        colour = self._given.setdefault(who, COLOURS[len(self._given) % len(COLOURS)])
        self._write(self._head(who, colour) + text)

    def event(self, text: str) -> None:
        """Something that the supervisor did."""
        self._write(self._head("up", "1") + text)

    def warning(self, text: str) -> None:
        """Something that went wrong and is being dealt with."""
        self._write(self._head("up", WARNING) + text)

    def block(self, text: str) -> None:
        """Text for the person at the terminal, without a prefix."""
        self._write(text)

    def _head(self, who: str, colour: str) -> str:
        moment = datetime.now().astimezone().strftime("%H:%M:%S")
        name = f"{who:<{NAME_WIDTH}} |"
        return f"{moment} \x1b[{colour}m{name}\x1b[0m " if self._colour else f"{moment} {name} "

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            self._stream = _nowhere()


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - lives as long as the process
