"""Revisions that very many ask for at once (G1)."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from services.gateway.source import batches, standings
from services.gateway.source.positions import KnownPositions
from services.gateway.source.standings import Standings
from shared.contracts.errors import ErrorCode, RequestFailed
from shared.contracts.identity import Identity
from shared.contracts.reads import RevisionAnswer, RevisionCheck
from tests.unit.gateway.memory_source import settled

ANN, EVE = (Identity(user=name, credential=name) for name in ("ann", "eve"))
WHOEVER = Identity(user="local", unscoped=True, credential="local")


class Readers:
    """Stands for the readers: sessions at revisions that everybody may see but Eve. Each look takes its answer when it
    begins, and waits to be let through.
    """

    def __init__(self) -> None:
        self.positions = KnownPositions()
        self.positions.enter("e")
        self.revisions = {"s": 7, "other": 3}
        self.failure: ErrorCode | None = None
        self.asked: list[RevisionCheck] = []
        self._through = asyncio.Semaphore(0)
        self.standings = Standings(self._answer, self.positions.least, 30, authoritative=False)
        self._callers: list[asyncio.Task[RevisionAnswer]] = []

    async def _answer(self, check: RevisionCheck) -> RevisionAnswer:
        self.asked.append(check)
        found = {session: self.revisions[session] for session in check.sessions if session in self.revisions}
        refused = {session: ("eve",) for session in found if "eve" in check.readers.get(session, ())}
        failure = self.failure
        await self._through.acquire()
        if failure is not None:
            raise RequestFailed(failure, "as told")
        return RevisionAnswer(
            epoch="e", primary=True, revisions=found, tasks=dict.fromkeys(found, "t"), refused=refused
        )

    def call(self, identity: Identity = ANN, session_id: str = "s") -> "asyncio.Task[RevisionAnswer]":
        """A caller's question, under way."""
        caller = asyncio.create_task(self.standings.look(identity, session_id))
        self._callers.append(caller)
        return caller

    async def begun(self, looks: int) -> None:
        """Waits until so many looks have begun."""
        await settled(lambda: len(self.asked) == looks)

    def let_through(self, looks: int = 1) -> None:
        """Lets so many looks go on."""
        for _ in range(looks):
            self._through.release()

    async def close(self) -> None:
        """Ends everything."""
        for caller in self._callers:
            caller.cancel()
        await asyncio.gather(*self._callers, return_exceptions=True)
        await self.standings.close()


@pytest.fixture
async def readers(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Readers]:
    """Readers whose next look begins only when the one before it is answered."""
    monkeypatch.setattr(standings, "MOMENT_SECONDS", 3600.0)
    readers = Readers()
    yield readers
    await readers.close()


async def test_what_is_asked_in_a_moment_is_one_look(readers: Readers) -> None:
    callers = [readers.call(Identity(user=f"user{number}")) for number in range(100)]
    callers += [readers.call(WHOEVER), readers.call(ANN, "other")]
    await readers.begun(1)
    readers.let_through()
    answers = await asyncio.gather(*callers)
    assert [answer.revisions for answer in answers] == [{"s": 7}] * 101 + [{"other": 3}]
    assert [answer.tasks for answer in answers[-2:]] == [{"s": "t"}, {"other": "t"}]
    (check,) = readers.asked
    assert (check.sessions, len(check.readers["s"]), check.readers["other"]) == (("s", "other"), 100, ("ann",))
    assert (check.identity.unscoped, check.as_found, check.least) == (True, True, {})


async def test_a_look_that_has_begun_serves_nobody_who_asks_later(readers: Readers) -> None:
    first = readers.call()
    await readers.begun(1)
    readers.revisions["s"] = 8
    later = [readers.call() for _ in range(50)]
    readers.let_through(2)
    assert (await first).revisions == {"s": 7}
    assert [(await each).revisions for each in later] == [{"s": 8}] * 50
    assert len(readers.asked) == 2


async def test_a_look_that_is_not_answered_holds_the_next_one_up_for_a_moment_only(
    readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standings, "MOMENT_SECONDS", 0.0)
    readers.call()
    await readers.begun(1)
    readers.call()
    await readers.begun(2)


async def test_each_is_told_what_it_may_see_and_what_is_missing_looks_the_same(readers: Readers) -> None:
    callers = [readers.call(), readers.call(EVE), readers.call(EVE, "nothing"), readers.call(WHOEVER, "nothing")]
    readers.let_through()
    shown, *hidden = await asyncio.gather(*callers)
    assert shown.revisions == {"s": 7}
    assert hidden == [RevisionAnswer(epoch="e", primary=True, revisions={}, tasks={})] * 3


class TestBehind:
    async def test_whoever_knows_more_looks_again_and_holds_nobody_up(self, readers: Readers) -> None:
        early = readers.call()
        readers.let_through()
        assert (await early).revisions == {"s": 7}
        readers.positions.note("s", "e", 9)
        knowing, other, barred = readers.call(), readers.call(ANN, "other"), readers.call(EVE)
        readers.let_through()
        assert (await other).revisions == {"other": 3}
        assert (await barred).revisions == {}, "who may not see it is told so at once"
        await readers.begun(3)
        readers.revisions["s"] = 9
        readers.let_through(2)
        assert (await knowing).revisions == {"s": 9}

    async def test_it_waits_for_what_was_known_when_it_asked(self, readers: Readers) -> None:
        readers.positions.note("s", "e", 7)
        caller = readers.call()
        await readers.begun(1)
        readers.positions.note("s", "e", 50)
        readers.let_through()
        assert (await caller).revisions == {"s": 7}

    async def test_what_stays_behind_is_told(self, readers: Readers) -> None:
        impatient = Standings(readers._answer, readers.positions.least, 0.01, authoritative=False)
        readers.positions.note("s", "e", 9)
        readers.let_through(100)
        with pytest.raises(RequestFailed) as failed:
            await impatient.look(ANN, "s")
        assert failed.value.failure.code == "behind"
        await impatient.close()


async def test_a_look_that_fails_fails_for_all_and_the_next_one_is_made(readers: Readers) -> None:
    readers.failure = "unavailable"
    callers = [readers.call() for _ in range(3)]
    readers.let_through()
    failures = await asyncio.gather(*callers, return_exceptions=True)
    assert [each.failure.code for each in failures if isinstance(each, RequestFailed)] == ["unavailable"] * 3
    readers.failure = None
    readers.let_through()
    assert (await readers.call()).revisions == {"s": 7}


async def test_a_caller_that_leaves_leaves_the_look_to_the_others(readers: Readers) -> None:
    gone, staying = readers.call(), readers.call()
    await readers.begun(1)
    gone.cancel()
    readers.let_through()
    assert (await staying).revisions == {"s": 7}


async def test_looks_are_bounded_by_sessions_and_by_readers(readers: Readers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "SESSIONS", 2)
    monkeypatch.setattr(batches, "READERS", 3)
    wanted = [("ann", "s"), ("bob", "s"), ("ann", "s"), ("ann", "other"), ("bob", "other"), ("ann", "x"), ("ann", "y")]
    callers = [readers.call(Identity(user=user), session) for user, session in wanted]
    readers.let_through(3)
    await asyncio.gather(*callers)
    assert [check.sessions for check in readers.asked] == [("s", "other"), ("other", "x"), ("y",)]
    crowd = [readers.call(Identity(user=f"user{number}")) for number in range(5)]
    readers.let_through()
    await asyncio.gather(*crowd)
    assert len(readers.asked[-1].readers["s"]) == 5, "the readers of one session are one look, however many"
