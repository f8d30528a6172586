"""Rows as a reader encodes them, and pages as they are told behind them."""

import orjson
import pytest

from services.reader.rows import message_row
from shared.broker.long_texts import LONG_CHARACTERS, completed, followed_by, split
from shared.contracts.errors import RequestFailed
from shared.contracts.reads import MessagesAnswer, UnchangedAnswer
from shared.contracts.rows import MessageRow

POSITION = {"epoch": "e", "primary": True, "session_id": "s", "task_id": "t", "revision": 3}


def stored(content: str) -> dict[str, object]:
    """A row of the table."""
    return {
        "id": "m",
        "task_id": "t",
        "turn_id": None,
        "author_type": "user",
        "author_id": "",
        "content": content,
        "requests_input": False,
        "type": "message",
        "metadata": "{}",
        "prompt_seq": 1,
        "created_at": 0,
        "updated_at": 0,
    }


def told(*contents: str) -> bytes:
    """A page of rows with these contents, as a reader tells it."""
    rows = [message_row(stored(content), "s") for content in contents]
    document = {
        **POSITION,
        "kind": "messages",
        "rows": [orjson.loads(row.json) for row in rows],
        "has_more": False,
        "has_older": False,
        "has_newer": False,
        "end": None,
        "long": [index for index, row in enumerate(rows) if row.long is not None],
    }
    return followed_by(orjson.dumps(document), (row.long for row in rows if row.long is not None))


@pytest.mark.parametrize("text", ["x", "é", "\x01", "\x1f", '"', "\\", "\n\t\r\b\f", "\x7f", "\U0001f600", "a\x00"])
def test_a_long_content_weighs_what_it_is_as_json(text: str) -> None:
    content = text * LONG_CHARACTERS * 2
    found = message_row(stored(content), "s")
    short = message_row(stored(""), "s")
    assert found.long == content
    assert found.weight == short.weight + len(orjson.dumps(content)) - len('""')


def test_a_row_weighs_twice_where_something_is_stripped() -> None:
    for length in (1, LONG_CHARACTERS):
        text = "x" * length
        hidden = message_row(stored(text + "<kandev-system></kandev-system>"), "s")
        plain = message_row(stored(text + "(kandev-system)(/kandev-system)"), "s")
        assert hidden.weight == 2 * plain.weight


def test_contents_come_back_in_their_rows_whether_they_are_long_or_not() -> None:
    contents = ("", "é" * (LONG_CHARACTERS + 1), "x" * LONG_CHARACTERS, "\x01" * (LONG_CHARACTERS + 1), "short")
    document, texts = split(told(*contents))
    assert len(texts) == 2
    answer = completed(MessagesAnswer.model_validate_json(document), texts)
    assert isinstance(answer, MessagesAnswer)
    assert tuple(row.content for row in answer.rows) == contents
    assert all(isinstance(row, MessageRow) for row in answer.rows)


@pytest.mark.parametrize("texts", [(), (b"a", b"b")])
def test_an_answer_without_the_texts_that_it_names_is_not_taken(texts: tuple[bytes, ...]) -> None:
    document, _ = split(told("x" * (LONG_CHARACTERS + 1)))
    with pytest.raises(RequestFailed):
        completed(MessagesAnswer.model_validate_json(document), texts)


def test_an_unchanged_page_has_no_texts() -> None:
    unchanged = UnchangedAnswer.model_validate(POSITION)
    assert completed(unchanged, ()) is unchanged
    with pytest.raises(RequestFailed):
        completed(unchanged, (b"a",))
