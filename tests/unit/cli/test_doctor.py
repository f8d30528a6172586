"""How findings are written."""

import pytest

from cli.diagnosis.judge import Finding, State
from cli.doctor import paragraph

FINDING = Finding(
    "database",
    "replica identities",
    State.FAIL,
    "conversation_session_revisions, task_session_messages, task_session_turns",
    "SELECT pg_drop_replication_slot('conversation_receipts_0123456789') once they are not needed; then try again.",
)


@pytest.mark.parametrize("width", [80, 40, 10, 200])
def test_no_width_breaks_a_word(width: int) -> None:
    text = paragraph(FINDING, width)
    assert text.split() == [
        "fail",
        "database",
        "replica",
        "identities",
        *FINDING.found.split(),
        *FINDING.advice.split(),
    ]
    assert all(len(line) <= width or len(line.split()) <= 4 for line in text.splitlines()[1:]) or width < 80


def test_without_a_terminal_each_text_is_one_line() -> None:
    first, second = paragraph(FINDING, None).splitlines()
    assert first == f"fail  database  replica identities    {FINDING.found}"
    assert second == f"      {FINDING.advice}"
    assert paragraph(Finding("redis", "clock", State.OK, "in step"), None).count("\n") == 0
