"""Every page, against filtering and slicing a list in Python."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.reader.pages import ROW_BYTES
from services.reader.pools import Sources
from shared.contracts.errors import RequestFailed
from shared.contracts.reads import (
    After,
    Around,
    Before,
    Keyset,
    ListAnswer,
    MessagesAnswer,
    MessagesPage,
    SearchAnswer,
    SessionList,
    SessionSearch,
    Sort,
    TaskList,
    TurnsAnswer,
    TurnsPage,
)
from shared.contracts.rows import AuthorType
from shared.times import EARLIEST_TEXT, LATEST_TEXT, from_postgres, microseconds
from tests.integration.reader.people import OWNER, Reading, open_sources

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
START = datetime(2026, 1, 1, tzinfo=UTC)
ONE_TIE = 4
COUNT = 23
BUDGET = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@dataclass(frozen=True)
class Row:
    """What decides a row's place in pages."""

    time: str
    id: str
    task: str
    author: AuthorType

    @property
    def key(self) -> tuple[str, str]:
        return self.time, self.id


def moment(index: int) -> datetime:
    """Agents' messages share a microsecond in fours; prompts are strictly later than one another."""
    return START + timedelta(microseconds=index if index % 3 == 0 else index // ONE_TIE * ONE_TIE)


ROWS = sorted(
    (
        Row(
            time=f"{moment(index):%Y-%m-%dT%H:%M:%S.%fZ}",
            id=f"m{index * 7 % COUNT:02d}",
            task="task" if index % 5 else "elsewhere",
            author="user" if index % 3 == 0 else "agent",
        )
        for index in range(COUNT)
    ),
    key=lambda row: row.key,
)


async def store(db: asyncpg.Connection) -> None:
    """The rows as messages and as turns; another session's rows between them."""
    for session, prefix in (("s", ""), ("other", "x")):
        for row in ROWS:
            time = datetime.fromisoformat(row.time)
            await db.execute(
                "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content, created_at) "
                "VALUES ($1, $2, $3, $4, $1, $5)",
                *(prefix + row.id, session, row.task, row.author, time),
            )
            await db.execute(
                "INSERT INTO task_session_turns (id, task_session_id, task_id, started_at) VALUES ($1, $2, $3, $4)",
                *(prefix + row.id, session, row.task, time),
            )


@dataclass(frozen=True)
class Expected:
    """A page as Python slices it."""

    ids: list[str]
    has_older: bool | None
    has_newer: bool | None


def slice_rows(
    rows: Sequence[Row], position: Before | After | Around | None, sort: Sort, limit: int | None
) -> Expected:
    """`None` for the edge at which nothing is looked up."""
    count = len(ROWS) if limit is None else limit
    has_older: bool | None
    has_newer: bool | None
    if isinstance(position, Around):
        at = next(row.key for row in ROWS if row.id == position.row)
        before = [row for row in rows if row.key < at]
        after = [row for row in rows if row.key >= at]
        half = count // 2 if limit is not None else count
        rest = count - count // 2 if limit is not None else count
        chosen = before[max(0, len(before) - half) :] + after[:rest]
        has_older, has_newer = len(before) > half, len(after) > rest
    elif position is None:
        newest = sort == "desc"
        chosen = list(rows[-count:] if newest else rows[:count])
        more = len(rows) > count
        has_older, has_newer = (more, False) if newest else (False, more)
    else:
        at = key_of(position)
        if isinstance(position, Before):
            all_of_them = [row for row in rows if row.key < at]
            chosen, has_older, has_newer = all_of_them[-count:], len(all_of_them) > count, None
        else:
            all_of_them = [row for row in rows if row.key > at]
            chosen, has_older, has_newer = all_of_them[:count], None, len(all_of_them) > count
    ids = [row.id for row in chosen]
    return Expected(ids if sort == "asc" else ids[::-1], has_older, has_newer)


def key_of(position: Before | After) -> tuple[str, str]:
    if isinstance(position.row, str):
        return next(row.key for row in ROWS if row.id == position.row)
    return f"{EPOCH + timedelta(microseconds=position.row.time):%Y-%m-%dT%H:%M:%S.%fZ}", position.row.id


IDS = st.sampled_from([row.id for row in ROWS])
KEYSETS = st.builds(
    Keyset,
    time=st.integers(-1, COUNT + 1).map(lambda index: (START - EPOCH) // timedelta(microseconds=1) + index),
    id=st.sampled_from(["", "m05", "m11", "m115", "zz"]),
)
LINEAR = st.one_of(st.none(), st.builds(Before, row=IDS | KEYSETS), st.builds(After, row=IDS | KEYSETS))
LIMITS = st.one_of(st.none(), st.integers(1, COUNT + 2))
SORTS = st.sampled_from(["asc", "desc"])
TASKS = st.sampled_from([None, "task", "elsewhere", "nowhere"])
AUTHORS = st.sampled_from([(), ("user",), ("agent",), ("user", "agent")])


def chosen_rows(task: str | None, authors: tuple[AuthorType, ...]) -> list[Row]:
    return [row for row in ROWS if task in (None, row.task) and (not authors or row.author in authors)]


def end_of(rows: Sequence[tuple[str, str]]) -> Keyset | None:
    return Keyset(time=microseconds(rows[-1][0]), id=rows[-1][1]) if rows else None


def agrees(expected: Expected, found: MessagesAnswer) -> None:
    assert [row.id for row in found.rows] == expected.ids
    sure = [edge for edge in (expected.has_older, expected.has_newer) if edge is not None]
    assert found.has_more is any(sure)
    assert found.has_older is (expected.has_older is not False)
    assert found.has_newer is (expected.has_newer is not False)
    assert found.end == end_of([(row.created_at, row.id) for row in found.rows])


class TestEveryPage:
    @pytest.fixture
    async def stored(self, db: asyncpg.Connection) -> None:
        await store(db)

    async def test_of_messages(self, stored: None, reader: Reading) -> None:
        asked: list[tuple[MessagesPage, Expected]] = []

        @BUDGET
        @given(position=LINEAR | st.builds(Around, row=IDS), sort=SORTS, limit=LIMITS, task=TASKS, authors=AUTHORS)
        def collect(
            position: Before | After | Around | None,
            sort: Sort,
            limit: int | None,
            task: str | None,
            authors: tuple[AuthorType, ...],
        ) -> None:
            page = MessagesPage(
                identity=OWNER,
                session_id="s",
                task_id=task,
                authors=authors,
                sort=sort,
                limit=limit,
                position=position,
            )
            asked.append((page, slice_rows(chosen_rows(task, authors), position, sort, limit)))

        collect()
        for page, expected in asked:
            found = await reader.answer(page)
            assert isinstance(found, MessagesAnswer)
            agrees(expected, found)

    async def test_of_turns(self, stored: None, reader: Reading) -> None:
        asked: list[tuple[TurnsPage, Expected]] = []

        @BUDGET
        @given(position=LINEAR, sort=SORTS, limit=LIMITS, task=TASKS)
        def collect(position: Before | After | None, sort: Sort, limit: int | None, task: str | None) -> None:
            page = TurnsPage(identity=OWNER, session_id="s", task_id=task, sort=sort, limit=limit, position=position)
            asked.append((page, slice_rows(chosen_rows(task, ()), position, sort, limit)))

        collect()
        for page, expected in asked:
            found = await reader.answer(page)
            assert isinstance(found, TurnsAnswer)
            assert [row.id for row in found.rows] == expected.ids
            assert found.has_more is any(edge for edge in (expected.has_older, expected.has_newer))
            assert found.end == end_of([(row.started_at, row.id) for row in found.rows])

    @pytest.mark.parametrize("limit", [1, 2, 3, 5])
    @pytest.mark.parametrize("sort", ["asc", "desc"])
    async def test_walk_by_keyset_meets_each_row_once(
        self, stored: None, reader: Reading, sort: Sort, limit: int
    ) -> None:
        seen: list[str] = []
        position: Before | After | None = None
        while True:
            page = MessagesPage(identity=OWNER, session_id="s", sort=sort, limit=limit, position=position)
            found = await reader.answer(page)
            assert isinstance(found, MessagesAnswer)
            seen += [row.id for row in found.rows]
            if not found.has_more:
                break
            assert found.end is not None
            position = After(row=found.end) if sort == "asc" else Before(row=found.end)
        ids = [row.id for row in ROWS]
        assert seen == (ids if sort == "asc" else ids[::-1])

    async def test_goes_on_behind_a_row_that_was_deleted(
        self, stored: None, reader: Reading, db: asyncpg.Connection
    ) -> None:
        first = await reader.answer(MessagesPage(identity=OWNER, session_id="s", limit=5))
        assert isinstance(first, MessagesAnswer)
        assert first.end is not None
        await db.execute("DELETE FROM task_session_messages WHERE id = $1", first.end.id)
        second = await reader.answer(
            MessagesPage(identity=OWNER, session_id="s", limit=5, position=After(row=first.end))
        )
        assert isinstance(second, MessagesAnswer)
        assert [row.id for row in second.rows] == [row.id for row in ROWS[5:10]]


class TestPosition:
    @pytest.mark.parametrize("row", ["absent", "x-of-other"])
    async def test_of_no_row_of_the_session_is_refused(self, reader: Reading, db: asyncpg.Connection, row: str) -> None:
        await db.execute(
            "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type) "
            "VALUES ('x-of-other', 'other', 'task', 'agent')"
        )
        await db.execute(
            "INSERT INTO task_session_turns (id, task_session_id, task_id) VALUES ('x-of-other', 'other', 'task')"
        )
        for position in (Before(row=row), After(row=row)):
            for page in (
                MessagesPage(identity=OWNER, session_id="s", position=position),
                TurnsPage(identity=OWNER, session_id="s", position=position),
            ):
                with pytest.raises(RequestFailed) as refused:
                    await reader.answer(page)
                assert refused.value.failure.code == "invalid_cursor"
        with pytest.raises(RequestFailed) as refused:
            await reader.answer(MessagesPage(identity=OWNER, session_id="s", position=Around(row=row)))
        assert refused.value.failure.code == "not_found"

    async def test_that_cannot_be_stored_is_an_invalid_query(self, reader: Reading) -> None:
        with pytest.raises(RequestFailed) as refused:
            await reader.answer(MessagesPage(identity=OWNER, session_id="s", position=Before(row="a\x00b")))
        assert refused.value.failure.code == "invalid_query"


class TestRows:
    async def test_carry_every_column(self, reader: Reading, db: asyncpg.Connection) -> None:
        await db.execute(
            "INSERT INTO task_session_messages (id, task_session_id, task_id, turn_id, author_type, author_id, "
            "content, requests_input, type, metadata, created_at, updated_at) "
            "VALUES ('m', 's', 'task', 'turn', 'user', 'me', "
            "'héllo', true, 'status', '{\"a\": [1, null]}', '2026-01-01 00:00:00.12+00', '2026-01-02+00')"
        )
        found = await reader.answer(MessagesPage(identity=OWNER, session_id="s"))
        assert isinstance(found, MessagesAnswer)
        assert found.task_id == "task"
        assert [row.model_dump() for row in found.rows] == [
            {
                "id": "m",
                "session_id": "s",
                "task_id": "task",
                "turn_id": "turn",
                "author_type": "user",
                "author_id": "me",
                "content": "héllo",
                "requests_input": True,
                "type": "status",
                "metadata": '{"a":[1,null]}',
                "created_at": "2026-01-01T00:00:00.12Z",
                "updated_at": "2026-01-02T00:00:00Z",
                "prompt_seq": 1,
            }
        ]

    async def test_of_a_database_whose_times_have_no_zone(
        self, database_url: str, reader: Reading, db: asyncpg.Connection
    ) -> None:
        await db.execute(
            "INSERT INTO task_session_turns (id, task_session_id, task_id, started_at) "
            "SELECT 't' || n, 's', 'task', '2026-01-01 12:00+00'::timestamptz + n * interval '1 second' "
            "FROM generate_series(1, 5) n"
        )
        await db.execute(
            "ALTER TABLE task_session_turns ALTER started_at TYPE timestamp USING started_at AT TIME ZONE 'UTC'"
        )
        position = After(row=Keyset(time=microseconds("2026-01-01T12:00:02Z"), id="t2"))
        found = await reader.answer(TurnsPage(identity=OWNER, session_id="s", position=position))
        assert isinstance(found, TurnsAnswer)
        assert [row.started_at for row in found.rows] == [f"2026-01-01T12:00:0{n}Z" for n in (3, 4, 5)]


class TestBytes:
    """A page ends before the row that would take it over its cap; one row is always returned."""

    WEIGHT = ROW_BYTES + 100 + 2

    @pytest.fixture
    async def fat(self, db: asyncpg.Connection) -> None:
        """Ten rows of WEIGHT bytes, content of two-byte characters."""
        await db.execute(
            "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content, created_at) "
            "SELECT 'm' || n, 's', 'task', 'agent', repeat('é', 50), '2026-01-01'::timestamptz + n * interval '1 s' "
            "FROM generate_series(0, 9) n"
        )

    @pytest.mark.parametrize("limit", [None, 10, 4])
    @pytest.mark.parametrize("sort", ["asc", "desc"])
    async def test_end_the_page(self, sources: Sources, fat: None, sort: Sort, limit: int | None) -> None:
        order = range(10) if sort == "asc" else range(9, -1, -1)
        ids = [f"m{n}" for n in order]
        for fitting in range(12):
            for spare in (0, self.WEIGHT - 1):
                reader = Reading(sources, most_bytes=fitting * self.WEIGHT + spare)
                found = await reader.answer(MessagesPage(identity=OWNER, session_id="s", sort=sort, limit=limit))
                assert isinstance(found, MessagesAnswer)
                count = min(max(1, fitting), limit or 10, 10)
                assert [row.id for row in found.rows] == ids[:count]
                assert found.has_more is (count < 10)

    async def test_end_both_sides_of_a_window(self, sources: Sources, fat: None) -> None:
        reader = Reading(sources, most_bytes=4 * self.WEIGHT)
        found = await reader.answer(MessagesPage(identity=OWNER, session_id="s", limit=10, position=Around(row="m5")))
        assert isinstance(found, MessagesAnswer)
        assert [row.id for row in found.rows] == ["m3", "m4", "m5", "m6"]
        assert found.has_older
        assert found.has_newer

    @pytest.mark.parametrize("sort", ["asc", "desc"])
    @pytest.mark.parametrize(
        ("text", "weight"),
        [("\x01", 6), ('"', 2), ("é", 2), ("x", 1)],
        ids=["controls", "quotes", "letters", "plain"],
    )
    async def test_count_as_they_are_encoded(
        self, sources: Sources, db: asyncpg.Connection, text: str, weight: int, sort: Sort
    ) -> None:
        await db.execute(
            "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content, created_at) "
            "SELECT 'm' || n, 's', 'task', 'agent', repeat($1, 10000), '2026-01-01'::timestamptz + n * interval '1 s' "
            "FROM generate_series(0, 9) n",
            text,
        )
        reader = Reading(sources, most_bytes=60_000)
        seen: list[str] = []
        page = MessagesPage(identity=OWNER, session_id="s", sort=sort, limit=None)
        while True:
            found = await reader.answer(page)
            assert isinstance(found, MessagesAnswer)
            seen += [row.id for row in found.rows]
            assert len(found.rows) == min(max(1, 60_000 // (10_000 * weight + 512)), 10 - len(seen) + len(found.rows))
            if not found.has_more:
                break
            page = page.model_copy(update={"position": (After if sort == "asc" else Before)(row=found.end)})
        assert sorted(seen) == [f"m{n}" for n in range(10)]

    async def test_count_twice_where_something_is_stripped(self, sources: Sources, db: asyncpg.Connection) -> None:
        await db.execute(
            "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content, created_at) "
            "SELECT 'm' || n, 's', 'task', 'agent', repeat('x', 10000) || '<kandev-system></kandev-system>', "
            "'2026-01-01'::timestamptz + n * interval '1 s' FROM generate_series(0, 9) n"
        )
        reader = Reading(sources, most_bytes=60_000)
        found = await reader.answer(MessagesPage(identity=OWNER, session_id="s", limit=None))
        assert isinstance(found, MessagesAnswer)
        assert (len(found.rows), found.has_more) == (2, True)

    async def test_of_a_large_row_before_a_window_leave_it_to_the_next_page(
        self, sources: Sources, db: asyncpg.Connection
    ) -> None:
        """Only the row that a window is centred on is there whatever its size."""
        for size in (1, 9000):
            await db.execute("DELETE FROM task_session_messages")
            await db.execute(
                "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content, created_at) "
                "SELECT 'm' || n, 's', 'task', 'agent', repeat(E'\\x01', $1), "
                "'2026-01-01'::timestamptz + n * interval '1 s' FROM generate_series(0, 2) n",
                size,
            )
            reader = Reading(sources, most_bytes=20_000)
            page = MessagesPage(identity=OWNER, session_id="s", limit=10, position=Around(row="m1"))
            found = await reader.answer(page)
            assert isinstance(found, MessagesAnswer)
            assert [row.id for row in found.rows] == (["m0", "m1", "m2"] if size == 1 else ["m1"])
            assert (found.has_older, found.has_newer) == ((False, False) if size == 1 else (True, True))

    async def test_of_one_row_over_the_cap_leave_it_alone_on_its_page(
        self, sources: Sources, db: asyncpg.Connection
    ) -> None:
        await db.execute(
            "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content, created_at) "
            "SELECT 'm' || n, 's', 'task', 'agent', repeat('x', 9000), '2026-01-01'::timestamptz + n * interval '1 s' "
            "FROM generate_series(0, 2) n"
        )
        reader = Reading(sources, most_bytes=5000)
        found = await reader.answer(MessagesPage(identity=OWNER, session_id="s", limit=None))
        assert isinstance(found, MessagesAnswer)
        assert [(row.id, len(row.content)) for row in found.rows] == [("m0", 9000)]
        assert found.has_more

    async def test_a_page_without_a_limit_takes_eight_mebibytes(self, reader: Reading, db: asyncpg.Connection) -> None:
        await db.execute(
            "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content, created_at) "
            "SELECT 'm' || n, 's', 'task', 'agent', repeat('x', (1 << 20) - 600), "
            "'2026-01-01'::timestamptz + n * interval '1 s' FROM generate_series(0, 9) n"
        )
        found = await reader.answer(MessagesPage(identity=OWNER, session_id="s", limit=None))
        assert isinstance(found, MessagesAnswer)
        assert len(found.rows) == 8
        assert found.has_more


async def test_an_empty_session_has_an_empty_page(reader: Reading, db: asyncpg.Connection) -> None:
    for sort in ("asc", "desc"):
        found = await reader.answer(MessagesPage(identity=OWNER, session_id="s", sort=sort, limit=None))
        assert isinstance(found, MessagesAnswer)
        assert (found.rows, found.has_more, found.has_older, found.has_newer, found.end) == (
            (),
            False,
            False,
            False,
            None,
        )


async def test_the_settings_of_the_sessions_reach_the_server(database_url: str) -> None:
    async with open_sources(database_url) as sources:
        assert await sources.primary.fetchval("SHOW enable_sort") == "off"
        assert await sources.primary.fetchval("SHOW default_transaction_read_only") == "on"


BEYOND = (
    ("-infinity", EARLIEST_TEXT),
    ("4713-01-02 00:00:00+00 BC", EARLIEST_TEXT),
    ("0001-12-31 23:59:59.999999+00 BC", EARLIEST_TEXT),
    ("0001-01-01 00:00:00+00", EARLIEST_TEXT),
    ("2026-01-01 00:00:00+00", "2026-01-01T00:00:00Z"),
    ("9999-12-31 23:59:59.999999+00", LATEST_TEXT),
    ("9999-12-31 23:59:59.9999999+00", LATEST_TEXT),
    ("10000-01-02 00:00:00+00", LATEST_TEXT),
    ("294276-12-31 23:59:59+00", LATEST_TEXT),
    ("infinity", LATEST_TEXT),
)
"""Times in their order, with what is read of them."""


class TestTimesThatHaveNoText:
    @pytest.fixture
    async def ids(self, db: asyncpg.Connection) -> list[str]:
        """Rows of every such time in every column, in the order of the source."""
        for number, (time, _) in enumerate(BEYOND):
            await db.execute(
                "INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, created_at, updated_at)"
                " VALUES ($1, 's', 'task', 'agent', $2::text::timestamptz, $2::text::timestamptz)",
                *(f"r{9 - number}", time),
            )
            await db.execute(
                "INSERT INTO task_session_turns"
                " (id, task_session_id, task_id, started_at, completed_at, created_at, updated_at)"
                " SELECT $1, 's', 'task', t, t, t, t FROM (SELECT $2::text::timestamptz AS t) moment",
                *(f"r{9 - number}", time),
            )
        return [f"r{9 - number}" for number in range(len(BEYOND))]

    async def test_rows_are_read_at_the_nearest_time(self, ids: list[str], reader: Reading) -> None:
        texts = [text for _, text in BEYOND]
        messages = await reader.answer(MessagesPage(identity=OWNER, session_id="s"))
        assert isinstance(messages, MessagesAnswer)
        assert [row.id for row in messages.rows] == ids
        assert [row.created_at for row in messages.rows] == [row.updated_at for row in messages.rows] == texts
        turns = await reader.answer(TurnsPage(identity=OWNER, session_id="s"))
        assert isinstance(turns, TurnsAnswer)
        assert [row.id for row in turns.rows] == ids
        assert [row.completed_at for row in turns.rows] == [row.started_at for row in turns.rows] == texts

    @pytest.mark.parametrize("sort", ["asc", "desc"])
    async def test_walks_meet_each_row_once(self, ids: list[str], reader: Reading, sort: Sort) -> None:
        for by_row in (False, True):
            seen: list[str] = []
            position: Before | After | None = None
            for _ in ids:
                page = MessagesPage(identity=OWNER, session_id="s", sort=sort, limit=1, position=position)
                found = await reader.answer(page)
                assert isinstance(found, MessagesAnswer)
                assert found.end is not None
                seen += [row.id for row in found.rows]
                place = seen[-1] if by_row else found.end
                position = After(row=place) if sort == "asc" else Before(row=place)
            assert seen == (ids if sort == "asc" else ids[::-1])

    async def test_lists_and_searches_read_them_too(
        self, ids: list[str], reader: Reading, db: asyncpg.Connection
    ) -> None:
        await db.execute(
            "UPDATE task_sessions SET started_at = 'infinity', completed_at = '10000-01-01', updated_at = '-infinity'"
            " WHERE id = 's'"
        )
        await db.execute("UPDATE tasks SET created_at = '0044-03-15 BC', updated_at = 'infinity' WHERE id = 'task'")
        await db.execute("UPDATE task_session_messages SET content = 'needle' WHERE created_at = 'infinity'")
        listed = await reader.answer(SessionList(identity=OWNER, task_id="task"))
        assert isinstance(listed, ListAnswer)
        odd = next(row for row in listed.sessions if row.id == "s")
        assert (odd.started_at, odd.completed_at, odd.updated_at) == (LATEST_TEXT, LATEST_TEXT, EARLIEST_TEXT)
        assert {row.id for row in listed.sessions} == {"s", "other"}
        tasks = await reader.answer(TaskList(identity=OWNER))
        assert isinstance(tasks, ListAnswer)
        assert [(row.created_at, row.updated_at) for row in tasks.tasks if row.id == "task"] == [
            (EARLIEST_TEXT, LATEST_TEXT)
        ]
        found = await reader.answer(SessionSearch(identity=OWNER, session_id="s", query="needle"))
        assert isinstance(found, SearchAnswer)
        assert [hit.created_at for hit in found.hits] == [LATEST_TEXT]

    async def test_a_page_and_a_receipt_show_the_same(
        self, ids: list[str], reader: Reading, db: asyncpg.Connection
    ) -> None:
        """What the log carries is the text of the column: in UTC, as the tracker's session has it."""
        await db.execute("SET timezone = 'UTC'")
        printed = await db.fetch("SELECT id, created_at::text FROM task_session_messages")
        found = await reader.answer(MessagesPage(identity=OWNER, session_id="s"))
        assert isinstance(found, MessagesAnswer)
        assert {row["id"]: from_postgres(row["created_at"]) for row in printed} == {
            row.id: row.created_at for row in found.rows
        }


async def test_a_fault_of_the_reader_is_told_at_once(
    db: asyncpg.Connection, reader: Reading, caplog: pytest.LogCaptureFixture
) -> None:
    """Here a column of a type that no row can have: whatever it is, the asker does not wait for its deadline."""
    await db.execute(
        "INSERT INTO task_session_turns (id, task_session_id, task_id) VALUES ('turn', 's', 'task');"
        "ALTER TABLE task_session_turns ALTER completed_at TYPE text USING 'a secret'"
    )
    with pytest.raises(RequestFailed) as refused:
        await reader.answer(TurnsPage(identity=OWNER, session_id="s"))
    assert refused.value.failure.code == "unavailable"
    assert "turns_page ended in a fault of the reader: TypeError" in caplog.text
    assert "secret" not in caplog.text
