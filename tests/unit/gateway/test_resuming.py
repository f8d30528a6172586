"""Scopes that go on where their clients stopped, or do not (G6)."""

import asyncio

import pytest

from services.gateway.scopes import checks as checks_module
from services.gateway.scopes import hub as hub_module
from services.gateway.scopes import memory as memory_module
from services.gateway.scopes import resuming as resuming_module
from services.gateway.scopes.hub import Hub
from services.gateway.scopes.memory import Memory
from services.gateway.scopes.projection import Projection, View
from services.gateway.scopes.resuming import Position, Resuming
from services.gateway.scopes.scope import Scope
from shared.contracts.control import AccessChanged
from shared.contracts.errors import RequestFailed
from shared.contracts.identity import LOCAL_USER
from shared.contracts.receipts import MAX_OPERATIONS, MAX_RECEIPT_BYTES, ChangeReceipt, Operation
from shared.contracts.rows import AuthorType
from tests.unit.gateway.in_memory import Gateway, MemoryEarlier
from tests.unit.gateway.memory_source import NotingConsumer, settled
from tests.unit.gateway.receipts import change, message, remove, removed, upsert


async def resumed(gateway: Gateway, revision: int, *, epoch: str = "e", view: View | None = None) -> NotingConsumer:
    """Opens a scope that stopped there; its consumer."""
    consumer = NotingConsumer()
    scope = Scope(id="scope", view=view or View("s"), identity=LOCAL_USER, consumer=consumer)
    await gateway.hub.open(
        scope,
        lambda start, again: gateway.replies.append((f"{start.epoch} {again}", start.revision)),
        Position(epoch, revision),
    )
    return consumer


async def closed_while_it_is_looked_for(gateway: Gateway) -> asyncio.Task[NotingConsumer]:
    """A client that asks to go on, and whose scope is closed while earlier receipts are looked for: its request, with
    that look still under way.
    """
    gateway.earlier.receipts = [change(4)]
    gateway.earlier.gate.clear()
    opening = asyncio.create_task(resumed(gateway, 4))
    await settled(lambda: gateway.earlier.looks == 1)
    for scope in gateway.hub.scopes_of("s"):
        gateway.hub.close(scope)
    return opening


def commit(gateway: Gateway, *receipts: ChangeReceipt) -> None:
    """Receipts arrive whose commits the source shows."""
    gateway.receive(*receipts)
    gateway.source.revisions["s"] = max(gateway.source.revisions["s"], *(receipt.revision for receipt in receipts))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Receipts that are on their way are not waited for."""
    monkeypatch.setattr(hub_module, "ARRIVAL_SECONDS", 0.0)


async def test_what_was_missed_comes_after_the_reply_and_then_what_follows(gateway: Gateway) -> None:
    await gateway.opened("other")
    commit(gateway, change(5, upsert(message("m1"))), change(6, upsert(message("m2"))))
    consumer = await resumed(gateway, 5)
    assert gateway.replies[-1] == ("e True", 5)
    assert consumer.log() == ["5-7"]
    commit(gateway, change(7))
    assert consumer.log() == ["5-7", "7-8"]


async def test_a_session_that_everybody_left_is_followed_on_for_a_while(gateway: Gateway) -> None:
    scope = await gateway.opened()
    gateway.hub.close(scope)
    assert gateway.hub.follows("s")
    commit(gateway, change(5))
    assert (await resumed(gateway, 5)).log() == ["5-6"]


async def test_a_session_that_is_followed_again_is_not_let_go(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_module, "LINGER_SECONDS", 0.0)
    first = await gateway.opened()
    commit(gateway, change(5))
    gateway.hub.close(first)
    await gateway.opened("again")
    commit(gateway, change(6))
    assert (await resumed(gateway, 5)).log() == ["5-7"]


async def test_a_client_that_fails_to_come_back_leaves_the_memory_to_the_others(gateway: Gateway) -> None:
    gateway.hub.close(await gateway.opened())
    commit(gateway, change(5))
    gateway.source.failing = [RequestFailed("unavailable", "no service answered in time; ask again")]
    with pytest.raises(RequestFailed):
        await resumed(gateway, 5)
    commit(gateway, change(6))
    assert (await resumed(gateway, 5)).log() == ["5-7"]


async def test_a_session_whose_last_scope_never_opened_is_followed_on_for_those_before_it(gateway: Gateway) -> None:
    first, second = await gateway.opened(), gateway.scope()
    gateway.source.gate.clear()
    opening = asyncio.create_task(gateway.open(second))
    await settled(lambda: gateway.source.reads == 3)
    gateway.hub.close(first)
    gateway.hub.close(second)
    gateway.source.gate.set()
    await opening
    commit(gateway, change(5))
    assert (await resumed(gateway, 5)).log() == ["5-6"]


async def test_nothing_is_remembered_of_a_session_that_nobody_followed(gateway: Gateway) -> None:
    gateway.source.barred = {("s", LOCAL_USER.user)}
    gateway.source.gate.clear()
    opening = asyncio.create_task(gateway.open(gateway.scope()))
    await settled(lambda: gateway.source.reads == 2)
    commit(gateway, change(5))
    gateway.source.gate.set()
    with pytest.raises(RequestFailed):
        await opening
    with gateway.hub.deliveries.of("s"):
        commit(gateway, change(6))
    assert (gateway.hub.follows("s"), gateway.memory.size) == (False, 0)


async def test_the_revision_just_read_needs_no_memory(gateway: Gateway) -> None:
    consumer = await resumed(gateway, 5)
    assert gateway.replies[-1] == ("e True", 5)
    commit(gateway, change(5))
    assert consumer.log() == ["5-6"]


@pytest.mark.parametrize(
    ("receipts", "revision", "reached", "epoch"),
    [
        ((change(5), change(7)), 5, 8, "e"),
        ((change(5), change(6, complete=False)), 5, 7, "e"),
        ((change(5, to=7),), 6, 7, "e"),
        ((change(5), change(6)), 4, 7, "e"),
        ((change(5),), 5, 7, "e"),
        ((change(5),), 7, 6, "e"),
        ((change(5),), 5, 6, "earlier"),
        ((), 5, 5, "earlier"),
    ],
    ids=[
        "a hole",
        "an incomplete receipt",
        "within an interval",
        "before what is held",
        "what is held does not reach the source",
        "above the source",
        "another epoch",
        "another epoch of the same revision",
    ],
)
@pytest.mark.usefixtures("impatient")
async def test_without_proof_the_client_reads(
    gateway: Gateway, receipts: tuple[ChangeReceipt, ...], revision: int, reached: int, epoch: str
) -> None:
    await gateway.opened("other")
    gateway.receive(*receipts)
    gateway.source.revisions["s"] = reached
    consumer = await resumed(gateway, revision, epoch=epoch)
    assert gateway.replies[-1] == ("e False", reached)
    assert consumer.sent == []
    commit(gateway, change(reached))
    assert consumer.log() == [f"{reached}-{reached + 1}"]


class TestReceiptsThatAreOnTheirWay:
    """A client that comes back to a busy session: what is read is ahead of what has arrived."""

    @pytest.fixture(autouse=True)
    def patient(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(hub_module, "ARRIVAL_SECONDS", 3600.0)
        monkeypatch.setattr(hub_module, "VISIBILITY_SECONDS", 0.0)

    async def waiting(self, gateway: Gateway) -> "asyncio.Task[NotingConsumer]":
        """Somebody resumes at 5; the source is at 8, and receipts are there up to 6."""
        await gateway.opened("other")
        gateway.receive(change(5))
        gateway.source.revisions["s"] = 8
        before = gateway.source.reads
        resuming = asyncio.create_task(resumed(gateway, 5))
        await settled(lambda: gateway.source.reads > before)
        return resuming

    async def test_they_are_waited_for(self, gateway: Gateway) -> None:
        resuming = await self.waiting(gateway)
        gateway.receive(change(6))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not resuming.done()
        gateway.receive(change(7), change(8))
        consumer = await resuming
        assert gateway.replies[-1] == ("e True", 5)
        assert consumer.log() == ["5-8", "8-9"]

    async def test_not_for_long(self, gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(hub_module, "ARRIVAL_SECONDS", 0.0)
        resuming = await self.waiting(gateway)
        assert (await resuming).log() == []
        assert gateway.replies[-1] == ("e False", 8)

    async def test_not_after_a_hole(self, gateway: Gateway) -> None:
        resuming = await self.waiting(gateway)
        gateway.receive(change(7))
        await resuming
        assert gateway.replies[-1] == ("e False", 8)

    async def test_who_may_read_is_decided_again(self, gateway: Gateway) -> None:
        resuming = await self.waiting(gateway)
        gateway.source.barred.add(("s", LOCAL_USER.user))
        await gateway.checks.access_changed(AccessChanged(session_id="s"))
        gateway.receive(change(6), change(7))
        replies = list(gateway.replies)
        with pytest.raises(RequestFailed):
            await resuming
        assert gateway.replies == replies

    async def test_another_epoch_is_another_history(self, gateway: Gateway) -> None:
        resuming = await self.waiting(gateway)
        gateway.source.epoch = "next"
        await gateway.hub.learn_epoch()
        await resuming
        assert gateway.replies[-1] == ("next False", 8)

    async def test_a_scope_that_is_closed_waits_no_more(self, gateway: Gateway) -> None:
        resuming = await self.waiting(gateway)
        for scope in gateway.hub.scopes_of("s"):
            gateway.hub.close(scope)
        replies = list(gateway.replies)
        gateway.receive(change(6), change(7))
        await asyncio.wait_for(resuming, 10)
        assert gateway.replies == replies


async def test_an_epoch_that_ended_is_forgotten(gateway: Gateway) -> None:
    await gateway.opened("other")
    commit(gateway, change(5))
    gateway.source.epoch = "next"
    await gateway.hub.learn_epoch()
    await resumed(gateway, 5)
    assert gateway.replies[-1] == ("next False", 6)


@pytest.mark.parametrize("seen_by", ["a subscription", "a check"])
async def test_a_history_that_broke_is_forgotten(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, seen_by: str
) -> None:
    """G4: the source never shows what was told, and comes to the same revision by another way."""
    monkeypatch.setattr(checks_module, "SETTLE_SECONDS", 0.0)
    await gateway.opened()
    gateway.receive(change(5))
    if seen_by == "a check":
        running = asyncio.create_task(gateway.checks.run())
        gateway.checks.after_loss([0])
        await settled(lambda: "reset" in gateway.consumer.log())
        running.cancel()
        await asyncio.wait([running])
    else:
        gateway.source.failing = [RequestFailed("behind", "x")]
        with pytest.raises(RequestFailed):
            await gateway.opened("late")
    gateway.source.revisions["s"] = 6
    await resumed(gateway, 5)
    assert gateway.replies[-1] == ("e False", 6)


async def test_a_session_that_was_made_again_is_another_one(gateway: Gateway) -> None:
    """R1: its revisions begin above the removal's, so nothing leads there."""
    await gateway.opened("other")
    gateway.receive(change(5), removed(6), change(7))
    gateway.source.revisions["s"] = 8
    await resumed(gateway, 6)
    assert gateway.replies[-1] == ("e False", 8)


async def test_receipts_held_while_the_revision_is_read_come_once(gateway: Gateway) -> None:
    """G1: those that the read shows are missed ones, those above it follow them."""
    await gateway.opened("other")
    commit(gateway, change(5))

    async def position(scope: Scope) -> Position:
        commit(gateway, change(6))
        gateway.receive(change(7))
        return Position("e", 7)

    gateway.hub._position = position  # type: ignore[method-assign]
    assert (await resumed(gateway, 5)).log() == ["5-7", "7-8"]


def operations(consumer: NotingConsumer) -> list[list[tuple[str, str]]]:
    return [[(each["kind"], each["id"]) for each in frame["payload"]["operations"]] for frame in consumer.sent]


async def test_it_is_told_as_the_scope_sees_it(gateway: Gateway) -> None:
    """By its filter, per row the last state, removals of rows that it may never have had included (G5)."""
    await gateway.opened("other")
    mine, theirs = message("m1"), message("m2", author="agent")
    commit(
        gateway,
        change(5, upsert(mine), upsert(theirs)),
        change(6, upsert(mine, mine)),
        change(7, remove(mine)),
        change(8, upsert(message("m3"))),
    )
    authors: frozenset[AuthorType] = frozenset({"user"})
    consumer = await resumed(gateway, 5, view=View("s", authors=authors))
    assert operations(consumer) == [[("remove", "m1"), ("upsert", "m3")]]
    nothing = await resumed(gateway, 5, view=View("s", task_id="elsewhere"))
    assert (nothing.log(), operations(nothing)) == (["5-9"], [[]])
    plugin = await resumed(gateway, 8, view=View("s", rows="plugin"))
    assert "authorType" in plugin.sent[0]["payload"]["operations"][0]["message"]


async def test_no_frame_is_larger_than_any_other_may_be(gateway: Gateway) -> None:
    await gateway.opened("other")
    rows = [message(f"m{number}") for number in range(MAX_OPERATIONS)]
    large, larger = (message(name, content="x" * (MAX_RECEIPT_BYTES // 2)) for name in ("large", "larger"))
    commit(
        gateway,
        change(5, *map(upsert, rows)),
        change(6, upsert(message("more"))),
        change(7, upsert(large)),
        change(8, upsert(larger)),
    )
    consumer = await resumed(gateway, 5)
    assert consumer.log() == ["5-6", "6-8", "8-9"]


async def test_what_would_be_a_reset_is_no_resume(gateway: Gateway) -> None:
    await gateway.opened("other")
    lacking = Operation(kind="upsert", entity="message", id="m2")
    commit(gateway, change(5, upsert(message("m1"))), change(6, lacking))
    assert (await resumed(gateway, 5)).sent == []
    assert gateway.replies[-1] == ("e False", 7)


async def test_a_connection_without_room_reads(gateway: Gateway) -> None:
    await gateway.opened("other")
    commit(gateway, change(5))
    consumer = NotingConsumer()
    consumer.room = False
    scope = gateway.scope("late", consumer)
    await gateway.hub.open(
        scope, lambda start, again: gateway.replies.append((str(again), start.revision)), Position("e", 5)
    )
    assert gateway.replies[-1] == ("False", 6)


async def test_a_hub_that_remembers_nothing_still_knows_who_is_at_the_end(gateway: Gateway) -> None:
    gateway.hub = Hub(gateway.source, gateway.positions, Memory(0), gateway.earlier)
    await gateway.hub.learn_epoch()
    await resumed(gateway, 5)
    assert gateway.replies[-1] == ("e True", 5)
    assert gateway.hub.follows("s")


class Single(Memory):
    """One receipt always leads from one revision to the next."""

    def __init__(self) -> None:
        super().__init__(0)
        self.becomes("m1")

    def becomes(self, message_id: str) -> None:
        self.payload = change(5, upsert(message(message_id, content="x" * 1000))).model_dump_json().encode()

    def between(self, session_id: str, revision: int, reached: int) -> list[bytes]:
        return [self.payload]


def test_what_was_projected_for_one_is_kept_for_the_next_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Single()
    resuming = Resuming(memory, MemoryEarlier())

    def missed(view: View) -> Projection:
        scope = Scope(id="x", view=view, identity=LOCAL_USER, consumer=NotingConsumer())
        found = resuming.missed(scope, Position("e", 5), Position("e", 6))
        assert found is not None
        return found[0][0]

    core, plugin = missed(View("s")), missed(View("s", rows="plugin"))
    assert missed(View("s")) is core
    assert missed(View("s", rows="plugin")) is plugin
    assert plugin != core
    monkeypatch.setattr(resuming_module, "PROJECTED_BYTES", 10_000)
    for number in range(2, 10):
        memory.becomes(f"m{number}")
        assert missed(View("s")) is missed(View("s"))
    memory.becomes("m1")
    assert missed(View("s")) is not core


class TestASessionThatWasNotFollowedHere:
    """A client that comes from another gateway."""

    async def test_what_was_told_elsewhere_is_found(self, gateway: Gateway) -> None:
        gateway.earlier.receipts = [change(3), change(4), change(5)]
        gateway.source.revisions["s"] = 6
        assert (await resumed(gateway, 4)).log() == ["4-6"]
        assert gateway.replies[-1] == ("e True", 4)
        assert (await resumed(gateway, 3)).log() == ["3-6"]
        assert gateway.earlier.looks == 1

    async def test_together_with_what_came_here(self, gateway: Gateway) -> None:
        await gateway.opened("other")
        commit(gateway, change(5))
        gateway.earlier.receipts = [change(3), change(4), change(5)]
        assert (await resumed(gateway, 3)).log() == ["3-6"]

    async def test_what_cannot_be_had_is_read(self, gateway: Gateway) -> None:
        gateway.earlier.receipts = [change(3)]
        assert (await resumed(gateway, 3)).sent == []
        assert gateway.replies[-1] == ("e False", 5)
        assert gateway.earlier.looks == 1

    async def test_what_cannot_be_understood_leaves_a_hole(self, gateway: Gateway) -> None:
        gateway.earlier.garbage = [b"{}", b"\xff"]
        gateway.earlier.receipts = [change(4)]
        assert (await resumed(gateway, 4)).log() == ["4-5"]

    async def test_it_does_not_keep_a_client_waiting(self, gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(hub_module, "RECALL_SECONDS", 0.0)
        gateway.earlier.gate.clear()
        assert (await resumed(gateway, 4)).sent == []
        assert gateway.replies[-1] == ("e False", 5)

    async def test_who_may_read_is_decided_again(self, gateway: Gateway) -> None:
        gateway.earlier.receipts = [change(4)]
        gateway.earlier.gate.clear()
        opening = asyncio.create_task(resumed(gateway, 4))
        await settled(lambda: gateway.earlier.looks == 1)
        gateway.source.barred = {("s", LOCAL_USER.user)}
        await gateway.checks.access_changed(AccessChanged(session_id="s"))
        gateway.earlier.gate.set()
        with pytest.raises(RequestFailed):
            await opening
        assert gateway.replies == []

    async def test_all_who_come_meanwhile_share_one_look(self, gateway: Gateway) -> None:
        gateway.earlier.receipts = [change(3), change(4)]
        gateway.earlier.gate.clear()
        coming = [asyncio.create_task(resumed(gateway, revision)) for revision in (3, 4, 3)]
        await settled(lambda: gateway.earlier.looks == 1)
        late = asyncio.create_task(resumed(gateway, 2))
        await settled(lambda: gateway.source.reads == 5)
        gateway.earlier.gate.set()
        assert [consumer.log() for consumer in await asyncio.gather(*coming, late)] == [["3-5"], ["4-5"], ["3-5"], []]
        assert gateway.earlier.looks == 1

    async def test_who_gives_up_leaves_the_look_to_the_others(self, gateway: Gateway) -> None:
        gateway.earlier.receipts = [change(4)]
        gateway.earlier.gate.clear()
        impatient, patient = (asyncio.create_task(resumed(gateway, 4)) for _ in range(2))
        await settled(lambda: gateway.earlier.looks == 1)
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient
        gateway.earlier.gate.set()
        assert (await patient).log() == ["4-5"]

    async def test_what_is_not_there_is_not_looked_for_by_each(self, gateway: Gateway) -> None:
        """Also of a session that changes meanwhile."""
        gateway.earlier.receipts = [change(4)]
        for revision in (3, 2, 1):
            assert (await resumed(gateway, revision)).sent == []
            commit(gateway, change(gateway.source.revisions["s"]))
        assert gateway.earlier.looks == 1

    async def test_a_scope_that_is_closed_meanwhile_leaves_nothing_behind(self, gateway: Gateway) -> None:
        """Else what changes until the next one comes would be missing, and never looked for."""
        opening = await closed_while_it_is_looked_for(gateway)
        gateway.earlier.gate.set()
        await opening
        assert (gateway.replies, gateway.hub.follows("s"), gateway.memory.size) == ([], False, 0)
        gateway.earlier.receipts.append(change(5))
        gateway.source.revisions["s"] = 6
        assert (await resumed(gateway, 4)).log() == ["4-6"]
        assert gateway.earlier.looks == 2

    async def test_who_comes_after_everybody_left_does_not_share_their_look(self, gateway: Gateway) -> None:
        """What was told in between reached nobody here."""
        opening = await closed_while_it_is_looked_for(gateway)
        gateway.earlier.receipts = [change(4), change(5)]
        gateway.source.revisions["s"] = 6
        again = asyncio.create_task(resumed(gateway, 4))
        await settled(lambda: gateway.earlier.looks == 2)
        gateway.earlier.gate.set()
        await opening
        assert (await again).log() == ["4-6"]

    async def test_another_sessions_receipt_is_none_of_it(self, gateway: Gateway) -> None:
        other = change(4).model_copy(update={"session_id": "other"})
        gateway.earlier.garbage = [other.model_dump_json().encode()]
        assert (await resumed(gateway, 4)).sent == []
        assert gateway.memory.size == 0

    async def test_nothing_is_looked_for_that_is_not_missing(self, gateway: Gateway) -> None:
        await resumed(gateway, 5)
        await resumed(gateway, 4, epoch="earlier")
        assert gateway.earlier.looks == 0
