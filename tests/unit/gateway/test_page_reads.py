"""Page reads that several callers share (G8)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from services.gateway.source.joining import GATEWAY, Joining
from services.gateway.source.kept import KEPT_BYTES, KEPT_SECONDS, KeptPages
from services.gateway.source.positions import KnownPositions
from services.gateway.source.room import Room
from shared.contracts.errors import ErrorCode, RequestFailed
from shared.contracts.identity import LOCAL_USER, Identity
from shared.contracts.reads import Bound, MessagesAnswer, MessagesPage, UnchangedAnswer
from tests.unit.gateway.memory_source import settled

ANN, BOB, EVE = (Identity(user=name, credential=name) for name in ("ann", "bob", "eve"))


def page(identity: Identity = LOCAL_USER, **more: Any) -> MessagesPage:
    return MessagesPage(identity=identity, session_id="s", **more)


class Readers:
    """Stands for the readers: a session at a revision, and who may see it. Each read waits to be let through."""

    def __init__(self) -> None:
        self.positions = KnownPositions()
        self.positions.enter("e")
        self.revision = 7
        self.members = {"ann", "bob"}
        self.failure: ErrorCode | None = None
        self.asked: list[MessagesPage] = []
        self.under_way = 0
        self.most_under_way = 0
        self._through = asyncio.Semaphore(0)
        self.joining: Joining[MessagesPage, MessagesAnswer] = Joining(
            self._answer, self.positions.least, Room(100, "unavailable", "too many"), timeout=30
        )
        self._callers: list[asyncio.Task[MessagesAnswer]] = []

    async def _answer(self, read: MessagesPage, _: float) -> tuple[MessagesAnswer | UnchangedAnswer, int]:
        self.asked.append(read)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await self._through.acquire()
        self.under_way -= 1
        if self.failure is not None:
            raise RequestFailed(self.failure, "as told")
        if not read.identity.unscoped and read.identity.user not in self.members:
            raise RequestFailed("not_found", "task session not found")
        admitted = tuple(user for user in read.readers if user in self.members)
        where = {"epoch": "e", "primary": True, "session_id": "s", "task_id": "t", "revision": self.revision}
        if read.held == Bound(epoch="e", revision=self.revision):
            return UnchangedAnswer(**where, admitted=admitted), 10
        return (
            MessagesAnswer(
                **where,
                admitted=admitted,
                rows=(),
                has_more=False,
                has_older=False,
                has_newer=False,
                end=None,
            ),
            100,
        )

    def call(self, wanted: MessagesPage) -> "asyncio.Task[MessagesAnswer]":
        """A caller's request, under way."""
        caller = asyncio.create_task(self.joining.read(wanted))
        self._callers.append(caller)
        return caller

    async def begun(self, reads: int) -> None:
        """Waits until so many reads have begun."""
        await settled(lambda: len(self.asked) == reads)

    def let_through(self, reads: int = 1) -> None:
        """Has so many reads answered."""
        for _ in range(reads):
            self._through.release()

    async def answers(self) -> list[int | str]:
        """What each caller got, in the order of their calls: a revision, or an error's code."""
        found = await asyncio.gather(*self._callers, return_exceptions=True)
        return [each.revision if isinstance(each, MessagesAnswer) else _code(each) for each in found]


def _code(error: BaseException) -> str:
    assert isinstance(error, RequestFailed), error
    return error.failure.code


@pytest.fixture
async def readers() -> AsyncIterator[Readers]:
    readers = Readers()
    yield readers
    await readers.joining.close()


async def test_equal_reads_are_one(readers: Readers) -> None:
    for _ in range(2000):
        readers.call(page())
    await readers.begun(1)
    readers.let_through()
    assert await readers.answers() == [7] * 2000
    assert len(readers.asked) == 1


async def test_a_caller_never_joins_a_read_that_has_begun(readers: Readers) -> None:
    readers.call(page())
    await readers.begun(1)
    readers.revision = 8
    late = [readers.call(page()) for _ in range(20)]
    await asyncio.sleep(0)
    readers.let_through()
    await readers.begun(2)
    readers.let_through()
    assert await readers.answers() == [8] * 21
    assert len(readers.asked) == 2
    assert all(each.done() for each in late)


async def test_one_read_is_under_way_and_one_waits(readers: Readers) -> None:
    for number in range(1, 6):
        readers.call(page())
        readers.call(page())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(readers.asked) <= number
    readers.let_through(5)
    assert await readers.answers() == [7] * 10
    assert len(readers.asked) == 2
    assert readers.most_under_way == 1


@pytest.mark.parametrize(
    "other",
    [
        page(limit=5),
        page(sort="desc"),
        page(authors=("user",)),
        page(task_id="t"),
        page(authoritative=True),
        MessagesPage(identity=LOCAL_USER, session_id="other"),
    ],
)
async def test_different_reads_are_not_joined(readers: Readers, other: MessagesPage) -> None:
    readers.call(page())
    readers.call(other)
    await readers.begun(2)
    readers.let_through(2)
    await readers.answers()


async def test_a_page_that_was_read_is_asked_for_once_per_revision(readers: Readers) -> None:
    readers.let_through(100)
    for _ in range(5):
        await readers.joining.read(page())
    assert [each.held for each in readers.asked] == [None, *[Bound(epoch="e", revision=7)] * 4]
    readers.revision = 8
    assert (await readers.joining.read(page())).revision == 8
    assert (await readers.joining.read(page())).revision == 8
    assert readers.asked[-1].held == Bound(epoch="e", revision=8)


async def test_a_page_that_is_known_to_be_old_is_not_held(readers: Readers) -> None:
    readers.let_through(100)
    await readers.joining.read(page())
    readers.revision = 9
    readers.positions.note("s", "e", 9)
    await readers.joining.read(page())
    assert readers.asked[-1].held is None
    assert readers.asked[-1].least == Bound(epoch="e", revision=9)
    readers.positions.enter("another")
    readers.positions.note("s", "another", 9)
    await readers.joining.read(page())
    assert readers.asked[-1].held is None


async def test_users_who_share_a_read_are_decided_one_by_one(readers: Readers) -> None:
    for identity in (ANN, EVE, BOB, ANN, LOCAL_USER):
        readers.call(page(identity))
    await readers.begun(1)
    assert readers.asked[0].identity == GATEWAY
    assert readers.asked[0].readers == ("ann", "bob", "eve")
    readers.let_through()
    await readers.begun(2)
    assert readers.asked[1].identity == EVE, "whoever is not admitted is told what a read of their own says"
    assert readers.asked[1].readers == ()
    assert readers.asked[1].held is None
    readers.let_through()
    assert await readers.answers() == [7, "not_found", 7, 7, 7]
    assert len(readers.asked) == 2


async def test_a_kept_page_is_given_to_nobody_without_a_decision(readers: Readers) -> None:
    readers.let_through(100)
    await readers.joining.read(page())
    readers.call(page(EVE))
    readers.call(page(ANN))
    assert await readers.answers() == ["not_found", 7]
    readers.members.clear()
    readers.call(page(ANN))
    readers.call(page(BOB))
    assert await readers.answers() == ["not_found", 7, "not_found", "not_found"]


async def test_a_reader_that_admits_nobody_shares_nothing(readers: Readers) -> None:
    """As one of an earlier version would, which does not know that it was asked for several."""
    readers.members = {"ann", "bob"}
    answer = readers._answer

    async def earlier(read: MessagesPage, seconds: float) -> tuple[MessagesAnswer | UnchangedAnswer, int]:
        return await answer(read.model_copy(update={"readers": (), "held": None}), seconds)

    readers.joining = Joining(earlier, readers.positions.least, Room(100, "unavailable", "too many"), timeout=30)
    for identity in (ANN, EVE, BOB):
        readers.call(page(identity))
    readers.let_through(100)
    assert await readers.answers() == [7, "not_found", 7]


@pytest.mark.parametrize("code", ["unavailable", "behind"])
async def test_what_concerns_everybody_fails_for_everybody(readers: Readers, code: ErrorCode) -> None:
    readers.failure = code
    for identity in (ANN, BOB, EVE):
        readers.call(page(identity))
    readers.let_through(100)
    assert await readers.answers() == [code] * 3
    assert len(readers.asked) == 1


@pytest.mark.parametrize("code", ["invalid_cursor", "not_found", "reconciliation_required"])
async def test_what_tells_something_of_the_session_is_told_to_each_alone(readers: Readers, code: ErrorCode) -> None:
    readers.failure = code
    for identity in (ANN, EVE):
        readers.call(page(identity))
    readers.let_through(100)
    assert await readers.answers() == [code] * 2
    assert [each.identity for each in readers.asked] == [GATEWAY, ANN, EVE]


async def test_callers_with_the_same_rights_share_every_failure(readers: Readers) -> None:
    readers.failure = "invalid_cursor"
    for _ in range(10):
        readers.call(page(ANN))
    readers.let_through(100)
    assert await readers.answers() == ["invalid_cursor"] * 10
    assert [each.identity for each in readers.asked] == [ANN]


async def test_a_caller_that_leaves_takes_nothing_from_the_others(readers: Readers) -> None:
    first, second = readers.call(page()), readers.call(page())
    await readers.begun(1)
    first.cancel()
    await asyncio.wait([first])
    readers.let_through()
    assert (await second).revision == 7


async def test_what_everybody_has_given_up_is_not_read(readers: Readers) -> None:
    readers.call(page())
    await readers.begun(1)
    gone = [readers.call(page()) for _ in range(3)]
    await asyncio.sleep(0)
    for each in gone:
        each.cancel()
    await asyncio.wait(gone)
    readers.let_through(100)
    assert (await readers.joining.read(page())).revision == 7
    assert len(readers.asked) <= 2


async def test_a_read_that_never_ends_is_waited_for_no_longer_than_the_timeout(readers: Readers) -> None:
    short = Joining(readers._answer, readers.positions.least, Room(100, "unavailable", "too many"), timeout=0.05)
    with pytest.raises(RequestFailed) as failed:
        await short.read(page())
    assert failed.value.failure.code == "unavailable"
    await short.close()


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def answer(revision: int) -> MessagesAnswer:
    return MessagesAnswer(
        epoch="e",
        primary=True,
        session_id="s",
        task_id="t",
        revision=revision,
        rows=(),
        has_more=False,
        has_older=False,
        has_newer=False,
        end=None,
    )


class TestKept:
    def test_for_a_moment(self) -> None:
        clock = Clock()
        kept: KeptPages[MessagesPage, MessagesAnswer] = KeptPages(clock)
        kept.keep(page(), answer(1), 10)
        clock.now += KEPT_SECONDS - 0.1
        assert kept.find(page()) == answer(1)
        clock.now += 0.1
        assert kept.find(page()) is None

    def test_what_is_found_unchanged_stays(self) -> None:
        clock = Clock()
        kept: KeptPages[MessagesPage, MessagesAnswer] = KeptPages(clock)
        kept.keep(page(), answer(1), 10)
        kept.keep(page(limit=5), answer(2), 10)
        clock.now += KEPT_SECONDS - 0.1
        kept.renew(page())
        kept.renew(page(limit=6))
        clock.now += KEPT_SECONDS - 0.1
        assert kept.find(page()) == answer(1)
        assert kept.find(page(limit=5)) is None

    def test_the_last_answer_counts(self) -> None:
        kept: KeptPages[MessagesPage, MessagesAnswer] = KeptPages(Clock())
        kept.keep(page(), answer(1), 10)
        kept.keep(page(), answer(2), 10)
        assert kept.find(page()) == answer(2)

    def test_within_their_bytes(self) -> None:
        kept: KeptPages[MessagesPage, MessagesAnswer] = KeptPages(Clock())
        for limit in range(1, 5):
            kept.keep(page(limit=limit), answer(limit), KEPT_BYTES // 3)
        kept.keep(page(limit=5), answer(5), KEPT_BYTES + 1)
        found = [kept.find(page(limit=limit)) for limit in range(1, 6)]
        assert found == [None, answer(2), answer(3), answer(4), None]
