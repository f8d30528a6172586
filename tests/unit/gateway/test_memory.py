"""What a gateway remembers: always a piece of the true history, and never more than it may."""

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from services.gateway.scopes import memory as memory_module
from services.gateway.scopes.memory import LINGER_SECONDS, RECEIPT_OVERHEAD, RUN_OVERHEAD, SESSION_BYTES, Memory
from shared.contracts.receipts import ChangeReceipt
from tests.unit.gateway.receipts import change

SESSIONS = ("s", "other", "third")
LIMIT = 40_000


class FaultyStream(RuleBasedStateMachine):
    """Receipts of a few sessions, and all that can happen to them on their way. `history` has the truth: by epoch and
    session, each receipt with its payload.
    """

    @initialize()
    def begin(self) -> None:
        self.memory = Memory(LIMIT)
        self.memory.enter("e0")
        self.epochs = 0
        self.history: dict[tuple[str, str], list[tuple[ChangeReceipt, bytes]]] = {}
        self.now = 0.0

    @property
    def epoch(self) -> str:
        return f"e{self.epochs}"

    def receives(self, receipt: ChangeReceipt, payload: bytes) -> None:
        self.memory.add(receipt, payload, self.now)

    @rule(
        session=st.sampled_from(SESSIONS),
        steps=st.integers(1, 3),
        size=st.integers(0, 3_000),
        complete=st.sampled_from((True, True, True, False)),
        arrives=st.sampled_from((True, True, True, False)),
    )
    def commits(self, session: str, steps: int, size: int, complete: bool, arrives: bool) -> None:
        known = self.history.setdefault((self.epoch, session), [])
        base = known[-1][0].revision if known else 3
        receipt = change(base, to=base + steps, epoch=self.epoch, complete=complete)
        receipt = receipt.model_copy(update={"session_id": session})
        payload = f"{self.epoch} {session} {base}".encode().ljust(size, b".")
        known.append((receipt, payload))
        if arrives:
            self.receives(receipt, payload)

    @rule(data=st.data(), back=st.integers(1, 6), count=st.integers(1, 6))
    def arrives_again(self, data: st.DataObject, back: int, count: int) -> None:
        """From a second leader, from a stream that is read again, or late and of an epoch that is over."""
        if self.history:
            known = self.history[data.draw(st.sampled_from(sorted(self.history)))]
            for receipt, payload in known[-back:][:count]:
                self.receives(receipt, payload)

    @rule(data=st.data(), back=st.integers(1, 8), count=st.integers(1, 8), lost=st.sets(st.integers(0, 7)))
    def is_recalled(self, data: st.DataObject, back: int, count: int, lost: set[int]) -> None:
        """From the stream, where some may be missing, be they of another epoch."""
        if self.history:
            epoch, session = data.draw(st.sampled_from(sorted(self.history)))
            found = self.history[epoch, session][-back:][:count]
            self.memory.recall(session, [each for place, each in enumerate(found) if place not in lost], self.now)

    @rule()
    def epoch_changes(self) -> None:
        self.epochs += 1
        self.memory.enter(self.epoch)

    @rule(session=st.sampled_from(SESSIONS), again=st.booleans())
    def is_left(self, session: str, again: bool) -> None:
        self.memory.left(session, self.now)
        assert session in self.memory
        if again:
            self.memory.joined(session)
            assert session not in self.memory

    @rule(session=st.sampled_from(SESSIONS))
    def is_forgotten(self, session: str) -> None:
        self.memory.forget(session)

    @rule(seconds=st.sampled_from((1.0, 30.0, LINGER_SECONDS)))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def tells_nothing_but_the_whole_truth(self) -> None:
        if not hasattr(self, "memory"):
            return
        for session in SESSIONS:
            known = self.history.get((self.epoch, session), [])[-8:]
            places = range(known[0][0].base_revision, known[-1][0].revision + 2) if known else range(3)
            for revision in places:
                for reached in (place for place in places if place >= revision):
                    told = self.memory.between(session, revision, reached)
                    if told is not None:
                        assert list(told) == truth(known, revision, reached)

    @invariant()
    def stays_within_its_limit(self) -> None:
        if hasattr(self, "memory"):
            assert 0 <= self.memory.size <= LIMIT

    def teardown(self) -> None:
        if hasattr(self, "memory"):
            for session in SESSIONS:
                self.memory.forget(session)
            assert self.memory.size == 0


def truth(known: list[tuple[ChangeReceipt, bytes]], revision: int, reached: int) -> list[bytes] | None:
    """What leads from one boundary to another, each receipt once; `None` where nothing that names its rows does."""
    if revision == reached:
        return []
    found = [(receipt, payload) for receipt, payload in known if revision < receipt.revision <= reached]
    if not found or found[0][0].base_revision != revision or found[-1][0].revision != reached:
        return None
    return [payload for _, payload in found] if all(receipt.complete for receipt, _ in found) else None


TestFaultyStream = FaultyStream.TestCase
TestFaultyStream.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


@pytest.fixture
def memory() -> Memory:
    memory = Memory(LIMIT)
    memory.enter("e")
    return memory


def remember(memory: Memory, *bases: int, session: str = "s", size: int = 10, now: float = 0.0) -> None:
    for base in bases:
        memory.add(change(base).model_copy(update={"session_id": session}), (b"%d" % base).ljust(size, b"."), now)


def bases(memory: Memory, revision: int, reached: int, session: str = "s") -> list[int] | None:
    found = memory.between(session, revision, reached)
    return None if found is None else [int(payload.rstrip(b".")) for payload in found]


def test_all_that_came_without_a_hole_is_told(memory: Memory) -> None:
    remember(memory, *range(5, 25))
    assert bases(memory, 5, 25) == list(range(5, 25))
    assert bases(memory, 9, 12) == [9, 10, 11]
    assert bases(memory, 4, 25) is None
    assert bases(memory, 5, 26) is None
    assert bases(memory, 25, 25) == []


def test_a_place_within_an_interval_is_no_boundary(memory: Memory) -> None:
    memory.add(change(5, to=8), b"5", 0.0)
    remember(memory, 8)
    assert bases(memory, 5, 9) == [5, 8]
    assert bases(memory, 6, 9) is None
    assert bases(memory, 5, 7) is None


def test_after_a_hole_the_run_begins_anew(memory: Memory) -> None:
    remember(memory, 5, 6, 8, 9, 7)
    assert bases(memory, 6, 10) is None
    assert bases(memory, 8, 10) == [8, 9]


def test_an_incomplete_receipt_is_a_hole(memory: Memory) -> None:
    remember(memory, 5)
    memory.add(change(6, complete=False), b"6", 0.0)
    remember(memory, 7)
    assert bases(memory, 5, 8) is None
    assert bases(memory, 6, 8) is None
    assert bases(memory, 7, 8) == [7]


def test_each_byte_is_counted(memory: Memory) -> None:
    remember(memory, 5, 6, size=100)
    remember(memory, 5, session="other", size=7)
    assert memory.size == 2 * RUN_OVERHEAD + 3 * RECEIPT_OVERHEAD + 207


def test_one_session_leaves_room_for_others() -> None:
    memory = Memory(64 << 20)
    memory.enter("e")
    remember(memory, *range(30), size=SESSION_BYTES // 10)
    assert memory.size <= SESSION_BYTES
    assert bases(memory, 29, 30) == [29]
    assert bases(memory, 22, 30) == list(range(22, 30))
    assert bases(memory, 0, 30) is None


def test_the_session_that_was_silent_for_longest_goes_first(memory: Memory) -> None:
    remember(memory, 0, session="a", size=LIMIT // 4)
    remember(memory, 0, session="b", size=LIMIT // 4)
    remember(memory, 1, session="a")
    remember(memory, 0, session="c", size=LIMIT // 2)
    assert bases(memory, 0, 1, "b") is None
    assert bases(memory, 0, 2, "a") == [0, 1]
    assert bases(memory, 0, 1, "c") == [0]


def test_a_session_that_is_forgotten_for_want_of_room_is_followed_on_no_more(memory: Memory) -> None:
    remember(memory, 0, session="a", size=LIMIT // 2)
    memory.left("a", 0.0)
    remember(memory, 0, session="b", size=LIMIT // 2)
    assert "a" not in memory


def test_a_session_that_was_left_is_kept_for_a_while(memory: Memory) -> None:
    remember(memory, 5, session="a")
    memory.left("a", 0.0)
    remember(memory, 5, session="b", now=LINGER_SECONDS - 1)
    assert "a" in memory
    assert bases(memory, 5, 6, "a") == [5]
    remember(memory, 6, session="b", now=LINGER_SECONDS)
    assert "a" not in memory
    assert bases(memory, 5, 6, "a") is None


def test_a_session_that_is_followed_again_stays(memory: Memory) -> None:
    remember(memory, 5, session="a")
    memory.left("a", 0.0)
    memory.joined("a")
    remember(memory, 5, session="b", now=LINGER_SECONDS)
    assert bases(memory, 5, 6, "a") == [5]


def test_the_sessions_that_are_followed_on_are_bounded(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "MAX_LINGERING", 2)
    for session in ("a", "b", "c"):
        remember(memory, 5, session=session)
        memory.left(session, 0.0)
    assert ("a" in memory, "b" in memory, "c" in memory) == (False, True, True)
    assert bases(memory, 5, 6, "a") is None


def test_switched_off_it_remembers_and_follows_nothing() -> None:
    memory = Memory(0)
    memory.enter("e")
    remember(memory, 5)
    memory.left("s", 0.0)
    assert (bases(memory, 5, 6), "s" in memory, memory.size) == (None, False, 0)
    assert bases(memory, 6, 6) == []


def recalled(*bases: int, complete: bool = True, epoch: str = "e") -> list[tuple[ChangeReceipt, bytes]]:
    return [(change(base, complete=complete, epoch=epoch), b"%d" % base) for base in bases]


def test_what_is_recalled_leads_to_what_is_remembered(memory: Memory) -> None:
    assert memory.begins_after("s", 3)
    remember(memory, 7, 8)
    assert memory.begins_after("s", 3)
    assert not memory.begins_after("s", 7)
    memory.recall("s", recalled(3, 4, 5, 6, 7, 8), 0.0)
    assert not memory.begins_after("s", 3)
    remember(memory, 9)
    assert bases(memory, 3, 10) == [3, 4, 5, 6, 7, 8, 9]


def test_what_is_recalled_of_a_session_of_which_nothing_is_known_goes_on(memory: Memory) -> None:
    memory.recall("s", recalled(3, 4), 0.0)
    remember(memory, 4, 5)
    assert bases(memory, 3, 6) == [3, 4, 5]


@pytest.mark.parametrize(
    "found",
    [
        recalled(3, 4, 5),
        [*recalled(3, 4, 5), *recalled(6, complete=False)],
        [*recalled(3, 4, 5), *recalled(6, epoch="earlier")],
        [(change(6, to=6), b"6"), *recalled(3)],
        [],
    ],
    ids=["a hole", "incomplete", "another epoch", "no interval", "nothing"],
)
def test_what_does_not_lead_there_changes_nothing(memory: Memory, found: list[tuple[ChangeReceipt, bytes]]) -> None:
    remember(memory, 7, 8)
    memory.recall("s", found, 0.0)
    assert bases(memory, 7, 9) == [7, 8]
    assert bases(memory, 6, 9) is None
    assert memory.begins_after("s", 6) is (not found)
    assert memory.size == RUN_OVERHEAD + 2 * (RECEIPT_OVERHEAD + 10)


def test_what_was_looked_for_is_looked_for_again_once_the_run_begins_anew(memory: Memory) -> None:
    remember(memory, 7)
    memory.recall("s", recalled(5, 6), 0.0)
    assert not memory.begins_after("s", 4)
    remember(memory, 8)
    assert not memory.begins_after("s", 4)
    remember(memory, 10)
    assert memory.begins_after("s", 4)
    memory.recall("s", recalled(8, 9), 0.0)
    assert bases(memory, 8, 11) == [8, 9, 10]
    assert not memory.begins_after("s", 4)


def test_after_an_incomplete_receipt_nothing_is_to_come(memory: Memory) -> None:
    remember(memory, 5)
    assert memory.lacks("s", 5, 7)
    memory.add(change(6, complete=False), b"6", 0.0)
    assert not memory.lacks("s", 5, 7)
    memory.recall("s", recalled(3, 4), 0.0)
    assert not memory.lacks("s", 5, 7)
    remember(memory, 6)
    assert memory.lacks("s", 5, 8)
    assert bases(memory, 3, 7) == [3, 4, 5, 6]


def test_an_incomplete_receipt_of_what_is_known_ends_nothing(memory: Memory) -> None:
    remember(memory, 5, 6)
    memory.add(change(6, complete=False), b"6", 0.0)
    assert memory.lacks("s", 5, 8)


def test_no_more_is_recalled_than_may_be_remembered(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "SESSION_BYTES", RUN_OVERHEAD + 3 * (RECEIPT_OVERHEAD + 1))
    remember(memory, 7, size=1)
    memory.recall("s", recalled(3, 4, 5, 6), 0.0)
    assert bases(memory, 4, 8) is None
    assert bases(memory, 5, 8) == [5, 6, 7]


def test_switched_off_it_asks_for_nothing_earlier() -> None:
    assert not Memory(0).begins_after("s", 3)
