"""What is heard of what services log, and what is found in it."""

import logging

import pytest

from tests.support.logs import LOG, marked, quoted

logger = logging.getLogger("services.something")


def test_lines_are_heard_as_services_write_them() -> None:
    begun = LOG.end
    logger.error("it failed", exc_info=ValueError("Failing row contains (planted)"))
    heard = LOG.since(begun)
    assert '"message":"it failed"' in heard
    assert marked(heard) == []


def test_what_was_planted_and_what_conversations_hold_is_found() -> None:
    text = "one line\na word that was planted\n"
    assert marked(text) == ["a word that was planted"]
    assert quoted(text, ["word", "a word that was", "another content"]) == ["a word that was"]


def test_other_processes_are_heard_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    begun = LOG.end
    LOG.note("a line of another process\n")
    assert LOG.since(begun) == capsys.readouterr().err == "a line of another process\n"
