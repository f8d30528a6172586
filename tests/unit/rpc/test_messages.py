"""Requests as reads and rows as messages, where no channel is needed to tell."""

import pytest
from grpc import StatusCode

from services.gateway.rpc.cursors import place_of
from services.gateway.rpc.errors import CallRefused, refused
from services.gateway.rpc.generated import plugin_pb2 as wire
from services.gateway.rpc.messages import MOST_CONTENT_BYTES, read_of, response_of
from shared.contracts.errors import ErrorCode, RequestFailed
from shared.contracts.reads import HostMessages, HostMessagesAnswer, HostRow, Keyset


def row(
    message_id: str = "m",
    *,
    task_id: str | None = "t",
    turn_id: str | None = None,
    created_at: int = 1_000_000,
    content: str = "text",
) -> HostRow:
    return (message_id, "s", task_id, turn_id, "agent", "message", created_at, content)


def test_an_empty_request_asks_for_the_first_50_of_everything() -> None:
    assert read_of(wire.ListMessagesRequest()) == HostMessages(limit=50)


def test_the_numbers_of_the_fields_are_those_of_kandev() -> None:
    def numbers(name: str) -> list[tuple[str, int]]:
        return [(each.name, each.number) for each in wire.DESCRIPTOR.message_types_by_name[name].fields]

    assert numbers("MessageFilter") == [
        ("session_ids", 1), ("task_ids", 2), ("since", 3), ("until", 4), ("types", 5),
    ]  # fmt: skip
    assert numbers("Page") == [("limit", 1), ("cursor", 2)]
    assert numbers("PageInfo") == [("next_cursor", 1), ("has_more", 2)]
    assert numbers("ListMessagesRequest") == [("filter", 1), ("page", 2)]
    assert numbers("ListMessagesResponse") == [("messages", 1), ("page_info", 2)]


def test_a_list_goes_on_behind_its_last_row() -> None:
    rows = (row("a", created_at=5), row("b", created_at=7))
    info = response_of(HostMessagesAnswer(rows=rows, has_more=True)).page_info
    assert (place_of(info.next_cursor), info.has_more) == (Keyset(time=7, id="b"), True)
    assert response_of(HostMessagesAnswer(rows=rows, has_more=False)).page_info == wire.PageInfo()
    assert response_of(HostMessagesAnswer(rows=(), has_more=False)) == wire.ListMessagesResponse(
        page_info=wire.PageInfo()
    )


def test_a_row_of_no_task_has_an_empty_one() -> None:
    (message,) = response_of(HostMessagesAnswer(rows=(row(task_id=None),), has_more=False)).messages
    assert (message.task_id, message.turn_id) == ("", "")


def test_a_turn_that_cannot_be_is_none() -> None:
    rows = (row(turn_id="é" * 255), row(turn_id="é" * 256))
    first, second = response_of(HostMessagesAnswer(rows=rows, has_more=False)).messages
    assert (first.turn_id, second.turn_id) == ("é" * 255, "")


@pytest.mark.parametrize("letter", ["a", "é", "€", "𐐷"])
def test_long_content_is_cut_between_letters(letter: str) -> None:
    size = len(letter.encode())
    fits = letter * (MOST_CONTENT_BYTES // size)
    for content in (fits, fits + letter, fits + letter * 1000):
        (message,) = response_of(HostMessagesAnswer(rows=(row(content=content),), has_more=False)).messages
        assert message.content == fits


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("unavailable", StatusCode.UNAVAILABLE),
        ("behind", StatusCode.UNAVAILABLE),
        ("invalid_query", StatusCode.INVALID_ARGUMENT),
        ("limit_exceeded", StatusCode.RESOURCE_EXHAUSTED),
        ("upstream_failure", StatusCode.INTERNAL),
    ],
)
def test_a_failed_read_has_a_status(code: ErrorCode, status: StatusCode) -> None:
    told = refused(RequestFailed(code, "why"))
    assert isinstance(told, CallRefused)
    assert (told.status, str(told)) == (status, "why")
