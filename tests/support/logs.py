"""What services log while the tests run. Nothing of it may hold what a test has planted, nor what conversations hold.

Whatever a test must never find in a log holds the word `planted`: contents, tokens, passwords, names in requests.
Contents of conversations need not even that: each `Stack` compares its database with the log at its end.
"""

import copy
import io
import logging
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from shared.telemetry import handler_to

MARK = "planted"

LONG_ENOUGH = 12
"""Shorter contents may be words of a log line by chance."""


class Log(logging.Handler):
    """Every line of services in this process, as services write them, and of those in processes of their own."""

    def __init__(self) -> None:
        super().__init__()
        self._written = io.StringIO()
        self._own = handler_to(self._written, "json", "tests")

    @property
    def end(self) -> int:
        """A place behind everything that was logged so far."""
        return self._written.tell()

    def emit(self, record: logging.LogRecord) -> None:
        """Takes a copy: the product's filters change a record, and others look at it, too."""
        self._own.handle(copy.copy(record))

    def note(self, line: str) -> None:
        """Takes a line of another process, which is shown as it was before."""
        sys.stderr.write(line)
        self._written.write(line)

    def since(self, place: int) -> str:
        """What was logged behind a place."""
        return self._written.getvalue()[place:]

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hears all that is logged within the block. Some tests set the root logger up anew: then it hears the next."""
        root, levels = logging.getLogger(), {name: logging.getLogger(name).level for name in ("services", "shared")}
        root.addHandler(self)
        for name in levels:
            logging.getLogger(name).setLevel(logging.INFO)
        try:
            yield
        finally:
            root.removeHandler(self)
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)


LOG = Log()
"""Of this process of the test run."""


def marked(text: str) -> list[str]:
    """Lines that hold what was planted."""
    return [line for line in text.splitlines() if MARK in line]


def quoted(text: str, contents: Iterable[str]) -> list[str]:
    """Those of the contents that stand in the text."""
    return [content for content in contents if len(content) >= LONG_ENOUGH and content in text]
