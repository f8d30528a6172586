"""Pages of Host RPC as they go out."""

import pytest

from services.reader.host_pages import MOST_CONTENT_BYTES, HostRow, response_of
from shared.contracts.reads import Keyset
from shared.host_rpc import FIRST_BYTES
from shared.host_rpc.cursors import place_of
from shared.host_rpc.generated import plugin_pb2 as wire


def row(
    message_id: str = "m",
    *,
    task_id: str | None = "t",
    turn_id: str | None = None,
    author_type: str = "agent",
    message_type: str | None = "message",
    created_at: int = 1_000_000,
    content: str | None = "text",
) -> HostRow:
    stored = None if content is None else content.encode()
    return (message_id, "s", task_id, turn_id, author_type, message_type, created_at, stored, True)


def page(*rows: HostRow, has_more: bool = False) -> wire.ListMessagesResponse:
    return wire.ListMessagesResponse.FromString(response_of(rows, has_more=has_more))


def test_a_row_is_told_in_the_fields_of_a_message() -> None:
    (message,) = page(row(turn_id="u", author_type="user", message_type="", created_at=1_999_999)).messages
    assert message == wire.Message(
        id="m",
        session_id="s",
        task_id="t",
        turn_id="u",
        author_type="user",
        content="text",
        type="message",
        created_at="1970-01-01T00:00:01Z",
    )


def test_a_list_goes_on_behind_its_last_row() -> None:
    rows = (row("a", created_at=5), row("b", created_at=7))
    info = page(*rows, has_more=True).page_info
    assert (place_of(info.next_cursor), info.has_more) == (Keyset(time=7, id="b"), True)
    assert page(*rows).page_info == wire.PageInfo()
    assert page() == wire.ListMessagesResponse(page_info=wire.PageInfo())


@pytest.mark.parametrize("rows", [(), (row(),)])
def test_a_page_is_known_by_its_first_byte(rows: tuple[HostRow, ...]) -> None:
    assert response_of(rows, has_more=False).startswith(FIRST_BYTES)


def test_what_was_written_for_the_agent_is_left_out() -> None:
    contents = (
        "a<kandev-system>b</kandev-system> c",
        "a<kandev-system>b",
        "a<kandev-s",
        "<kandev-system>b</kandev-system>",
    )
    assert [each.content for each in page(*(row(content=each) for each in contents)).messages] == ["ac", "a", "a", ""]


def test_a_row_of_no_task_has_an_empty_one() -> None:
    (message,) = page(row(task_id=None)).messages
    assert (message.task_id, message.turn_id) == ("", "")


def test_what_may_be_null_is_none() -> None:
    (message,) = page(row(message_type=None, content=None)).messages
    assert (message.type, message.content) == ("message", "")


def test_a_turn_that_cannot_be_is_none() -> None:
    first, second = page(row(turn_id="é" * 255), row(turn_id="é" * 256)).messages
    assert (first.turn_id, second.turn_id) == ("é" * 255, "")


def test_an_author_who_is_no_user_is_an_agent() -> None:
    authors = [
        each.author_type for each in page(*(row(author_type=each) for each in ("user", "agent", "system"))).messages
    ]
    assert authors == ["user", "agent", "agent"]


@pytest.mark.parametrize("letter", ["a", "é", "€", "𐐷"])
def test_long_content_is_cut_between_letters(letter: str) -> None:
    size = len(letter.encode())
    fits = letter * (MOST_CONTENT_BYTES // size)
    for content in (fits, fits + letter, fits + letter * 1000):
        (message,) = page(row(content=content)).messages
        assert message.content == fits
