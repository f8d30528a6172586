"""Appends against a real message: joined, ordered, repeated, refused."""

import asyncio
import itertools
import random
from unicodedata import normalize

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.revision.commands.appends import MOST_PENDING
from shared.contracts.commands import AppendMessage, CommandResult, CreateMessage
from shared.contracts.errors import RequestFailed
from shared.contracts.identity import LOCAL_USER, Identity
from tests.integration.commands.conftest import Source


async def begin(source: Source, message_id: str = "m", content: str = "") -> int:
    created = await source.do(
        CreateMessage(message_id=message_id, session_id="s", author_type="agent", content=content)
    )
    return created.revision


async def content(source: Source, message_id: str = "m") -> str:
    found = await source.pool.fetchval("SELECT content FROM task_session_messages WHERE id = $1", message_id)
    assert isinstance(found, str)
    return found


def append(offset: int, text: str, message_id: str = "m") -> AppendMessage:
    return AppendMessage(message_id=message_id, session_id="s", offset=offset, text=text)


def cut(text: str, size: int) -> list[AppendMessage]:
    return [append(start, text[start : start + size]) for start in range(0, len(text), size)]


async def test_appends_sent_together_become_few_revisions_and_each_is_told_its_own(source: Source) -> None:
    before = await begin(source)
    pieces = cut("x" * 100, 1)
    random.shuffle(pieces)
    results = await asyncio.gather(*(source.do(piece) for piece in pieces))
    assert await content(source) == "x" * 100
    after = await source.revision()
    intervals = {(result.base_revision, result.revision) for result in results}
    assert intervals == {(revision, revision + 1) for revision in range(before, after)}
    assert len(intervals) < len(pieces) / 4


async def test_text_is_counted_in_code_points(source: Source) -> None:
    text = "a👩‍🚀" + normalize("NFD", "é") + "𝔘日\u200d\n"
    await begin(source)
    await asyncio.gather(*(source.do(piece) for piece in cut(text, 1)))
    assert await content(source) == text
    assert await source.pool.fetchval("SELECT length(content) FROM task_session_messages") == len(text)


async def test_a_late_append_changes_nothing(source: Source) -> None:
    await begin(source)
    for piece in (pieces := cut("hello world", 3)):
        await source.do(piece)
    state = await source.state()
    for piece in reversed(pieces):
        result = await source.do(piece)
        assert result.base_revision == result.revision
    assert await source.state() == state


@pytest.mark.parametrize("offset", [0, 2, 3])
async def test_other_text_at_the_offset_is_a_conflict_that_names_the_length(source: Source, offset: int) -> None:
    await begin(source, content="abcd")
    failure = await source.refusal(append(offset, "xyz"))
    assert (failure.code, failure.details) == ("conflict", {"length": 4})


async def test_an_append_beyond_the_end_waits_for_what_another_replica_writes(source: Source) -> None:
    await begin(source)
    ahead = asyncio.ensure_future(source.do(append(3, "def")))
    await source.pool.execute("UPDATE task_session_messages SET content = 'abc'")
    await ahead
    assert await content(source) == "abcdef"


async def test_an_append_beyond_the_end_is_a_conflict_when_nothing_comes(source: Source) -> None:
    await begin(source, content="ab")
    state = await source.state()
    for offset in (3, 1 << 40):
        failure = await source.refusal(append(offset, "x"))
        assert (failure.code, failure.details) == ("conflict", {"length": 2})
    assert await source.state() == state


async def test_askers_who_may_and_may_not_are_told_apart_in_one_update(source: Source) -> None:
    await begin(source)
    await source.pool.execute("UPDATE workspaces SET owner_id = 'ann'")
    ann, bob = Identity(user="ann"), Identity(user="bob")
    done = await asyncio.gather(
        *(source.do(piece, (ann, bob, LOCAL_USER)[number % 3]) for number, piece in enumerate(cut("aaa", 1) * 5)),
        return_exceptions=True,
    )
    for number, result in enumerate(done):
        if number % 3 == 1:
            assert isinstance(result, RequestFailed)
            assert result.failure.code == "not_found"
        elif number % 3 == 0:
            assert isinstance(result, CommandResult)
        else:
            assert isinstance(result, RequestFailed)
            assert result.failure.details == {"length": 1}
    assert await content(source) == "a"


async def test_a_message_takes_so_many_appends_at_once_and_no_more(source: Source) -> None:
    await begin(source)
    pieces = cut("y" * (MOST_PENDING + 10), 1)
    done = await asyncio.gather(*(source.do(piece) for piece in pieces), return_exceptions=True)
    refused = [result for result in done if isinstance(result, RequestFailed)]
    assert [result.failure.code for result in refused] == ["limit_exceeded"] * 10
    assert await content(source) == "y" * MOST_PENDING
    await source.do(append(MOST_PENDING, "z"))


async def test_messages_do_not_wait_for_each_other(source: Source) -> None:
    for message in "abcdefgh":
        await begin(source, message)
    await asyncio.gather(
        *(source.do(append(start, str(start % 10), message)) for start in range(20) for message in "abcdefgh")
    )
    for message in "abcdefgh":
        assert await content(source, message) == "01234567890123456789"


MESSAGES = itertools.count()


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text(st.sampled_from("ab é日𝔘\u0301👩"), min_size=1, max_size=30),
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=10),
    order=st.randoms(use_true_random=False),
)
async def test_any_order_with_repetitions_ends_in_the_text(
    source: Source, text: str, sizes: list[int], order: random.Random
) -> None:
    pieces, start = [], 0
    for size in itertools.cycle(sizes):
        if start >= len(text):
            break
        pieces.append((start, text[start : start + size]))
        start += size
    pieces += order.sample(pieces, k=len(pieces) // 2)
    order.shuffle(pieces)
    message_id = f"h{next(MESSAGES)}"
    await begin(source, message_id)
    await asyncio.gather(*(source.do(append(at, part, message_id)) for at, part in pieces))
    assert await content(source, message_id) == text
