"""A page's query, decided without a database."""

import pytest

from services.reader.pages import MOST_ROWS, ROW_BYTES, query_of, shape_of
from shared.contracts.identity import Identity
from shared.contracts.reads import MAX_PAGE_BYTES, After, Around, Before, Keyset, MessagesPage, TurnsPage
from shared.contracts.rows import AuthorType

ME = Identity(user="me")
KEYSET = Keyset(time=1_767_225_600_500_000, id="m")


@pytest.mark.parametrize(
    ("authors", "author"), [((), None), (("user",), "user"), (("agent",), "agent"), (("user", "agent"), None)]
)
def test_an_author_is_written_into_the_statement(authors: tuple[AuthorType, ...], author: str | None) -> None:
    query = query_of(MessagesPage(identity=ME, session_id="s", authors=authors))
    assert query.shape.author == author
    predicate = {None: "", "user": "m.author_type = 'user'", "agent": "m.author_type <> 'user'"}[author]
    assert predicate in query.statement
    assert ("m.author_type " in query.statement) is (author is not None)


@pytest.mark.parametrize("sort", ["asc", "desc"])
def test_a_position_and_not_the_sort_decides_the_direction(sort: str) -> None:
    for row in ("m", KEYSET):
        before = MessagesPage.model_validate(
            {"identity": ME, "session_id": "s", "sort": sort, "position": Before(row=row)}
        )
        after = before.model_copy(update={"position": After(row=row)})
        assert not shape_of(before).newer
        assert shape_of(after).newer
    edge = MessagesPage.model_validate({"identity": ME, "session_id": "s", "sort": sort})
    assert shape_of(edge).newer is (sort == "asc")


def test_no_value_of_a_request_is_in_the_statement() -> None:
    marker = "mark'er"
    for position in (Before(row=marker), After(row=Keyset(time=KEYSET.time, id=marker)), Around(row=marker)):
        page = MessagesPage(
            identity=Identity(user=marker), session_id=marker, task_id=marker, authors=("user",), position=position
        )
        query = query_of(page)
        assert marker not in query.statement
        assert query.parameters.count(marker) == 4


def test_every_parameter_is_used() -> None:
    for position in (None, Before(row="m"), After(row=KEYSET), Around(row="m")):
        for task in (None, "task"):
            query = query_of(MessagesPage(identity=ME, session_id="s", task_id=task, position=position))
            for place in range(1, len(query.parameters) + 1):
                assert f"${place}" in query.statement
            assert f"${len(query.parameters) + 1}" not in query.statement


def test_without_a_limit_the_walk_is_as_long_as_a_page_of_the_smallest_rows() -> None:
    query = query_of(TurnsPage(identity=ME, session_id="s", limit=None))
    assert query.parameters[3:5] == (MAX_PAGE_BYTES, MOST_ROWS)
    assert MOST_ROWS * ROW_BYTES == MAX_PAGE_BYTES


@pytest.mark.parametrize("limit", [1, 2, 5, 100])
def test_around_a_row_the_halves_are_the_limit(limit: int) -> None:
    query = query_of(MessagesPage(identity=ME, session_id="s", limit=limit, position=Around(row="m")))
    older, newer = query.parameters[4], query.parameters[6]
    assert isinstance(older, int)
    assert isinstance(newer, int)
    assert older + newer == limit
    assert newer - older in (0, 1)
