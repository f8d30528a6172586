"""The lines of the list of sessions."""

from datetime import UTC, datetime

from cli.sessions import as_lines
from cli.tail_text import Clock
from client.writers import ListedSession


def row(name: str, state: str) -> ListedSession:
    return ListedSession(
        id=name,
        task_id="t",
        state=state,
        updated_at="2026-01-01T00:00:05Z",
        revision=7,
    )


def test_the_id_comes_first_and_columns_are_straight() -> None:
    clock = Clock(UTC, datetime(2026, 1, 1, tzinfo=UTC))
    assert as_lines((row("longer", "RUNNING"), row("s", "DONE")), clock) == [
        "longer  RUNNING  revision 7  changed 00:00:05  task t",
        "s       DONE     revision 7  changed 00:00:05  task t",
    ]
    assert as_lines((), clock) == []
