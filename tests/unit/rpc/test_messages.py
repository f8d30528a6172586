"""Requests as reads, where no channel is needed to tell."""

import pytest
from grpc import StatusCode

from services.gateway.rpc.errors import CallRefused, refused
from services.gateway.rpc.messages import read_of
from shared.contracts.errors import ErrorCode, RequestFailed
from shared.contracts.reads import HostMessages
from shared.host_rpc.generated import plugin_pb2 as wire


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
