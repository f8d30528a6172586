"""The lines of the list of sessions."""

from datetime import UTC, datetime

from cli.sessions import as_lines
from cli.tail_text import Clock
from client.writers import ListedSession


def row(name: str, state: str, task: str) -> ListedSession:
    return ListedSession(
        id=name,
        task_id=task,
        state=state,
        started_at="2026-01-01T00:00:05Z",
        updated_at="2026-01-01T00:00:09Z",
        revision=7,
    )


def test_the_id_comes_first_and_columns_are_straight() -> None:
    clock = Clock(UTC, datetime(2026, 1, 1, tzinfo=UTC))
    titles = {"t": "Make the\nlamp \x1b[31mgreen"}
    assert as_lines((row("longer", "RUNNING", "t"), row("s", "DONE", "old")), titles, clock) == [
        "SESSION  STATE    REVISION  STARTED   TASK  TITLE",
        "longer   RUNNING  7         00:00:05  t     Make the lamp [31mgreen",
        "s        DONE     7         00:00:05  old",
    ]
    assert as_lines((), {}, clock) == []
