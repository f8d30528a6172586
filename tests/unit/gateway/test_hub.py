"""Opening, telling, resetting and ending scopes, in every order in which reads and receipts can come."""

import asyncio
from collections.abc import Mapping

import pytest

from services.gateway.scopes import checks as checks_module
from services.gateway.scopes import hub as hub_module
from services.gateway.scopes import scope as scope_module
from services.gateway.scopes.joining import CALM_CHANGES
from services.gateway.scopes.scope import MAX_HELD, Phase
from shared.broker.receipts import Interruption, ReceiptEntry
from shared.contracts.errors import RequestFailed
from shared.contracts.receipts import RemovedReceipt
from tests.support.waiting import eventually
from tests.unit.gateway.in_memory import Gateway
from tests.unit.gateway.memory_source import entry, settled
from tests.unit.gateway.receipts import change, message, removed, upsert


async def test_receipts_that_arrive_while_the_revision_is_read_are_told_after_the_reply(gateway: Gateway) -> None:
    """G1: registered before the read; what the read shows already is not told again."""
    gateway.source.gate.clear()
    opening = asyncio.create_task(gateway.open(gateway.scope()))
    await settled(lambda: gateway.source.reads == 2)
    gateway.receive(change(4), change(5), change(6))
    assert gateway.consumer.sent == []
    gateway.source.gate.set()
    await opening
    assert gateway.replies == [("e", 5)]
    assert gateway.consumer.log() == ["5-6", "6-7"]


async def test_each_scope_is_told_from_its_own_revision(gateway: Gateway) -> None:
    """G1: de-duplication is per scope."""
    await gateway.opened("first")
    gateway.receive(change(5))
    gateway.source.revisions["s"] = 6
    await gateway.opened("second")
    gateway.receive(change(5), change(6))
    assert gateway.consumer.log("first") == ["5-6", "6-7"]
    assert gateway.consumer.log("second") == ["6-7"]


async def test_more_receipts_than_can_be_held_leave_a_gap_that_the_client_sees(gateway: Gateway) -> None:
    gateway.source.gate.clear()
    opening = asyncio.create_task(gateway.open(gateway.scope()))
    await settled(lambda: gateway.source.reads == 2)
    gateway.receive(*[change(5 + number) for number in range(MAX_HELD + 1)])
    gateway.source.gate.set()
    await opening
    assert len(gateway.consumer.log()) == MAX_HELD
    assert gateway.consumer.log()[0] == "6-7"


async def test_a_scope_that_cannot_be_opened_leaves_nothing(gateway: Gateway) -> None:
    scope = gateway.scope()
    gateway.source.failing = [RequestFailed("unavailable", "x")]
    with pytest.raises(RequestFailed):
        await gateway.open(scope)
    assert scope.phase is Phase.CLOSED
    assert not gateway.hub.follows("s")


async def test_a_scope_closed_while_it_opens_is_not_replied_to(gateway: Gateway) -> None:
    gateway.source.gate.clear()
    scope = gateway.scope()
    opening = asyncio.create_task(gateway.open(scope))
    await settled(lambda: gateway.source.reads == 2)
    gateway.hub.close(scope)
    gateway.source.gate.set()
    await opening
    assert (gateway.replies, gateway.consumer.sent) == ([], [])
    assert not gateway.hub.follows("s")


async def test_what_was_seen_is_the_least_that_is_read_again(gateway: Gateway) -> None:
    """G2: receipts, subscriptions and checks all raise it; another epoch's do not."""
    await gateway.opened()
    least = gateway.positions.least("s")
    assert least is not None
    assert (least.epoch, least.revision) == ("e", 5)
    gateway.receive(change(5))
    gateway.receive(change(8, epoch="foreign"))
    least = gateway.positions.least("s")
    assert least is not None
    assert least.revision == 6
    gateway.source.revisions["s"] = 9
    await gateway.check()
    least = gateway.positions.least("s")
    assert least is not None
    assert least.revision == 9


async def test_knowledge_that_no_source_reaches_is_given_up(gateway: Gateway) -> None:
    """G4: a restore took the session back; without this nobody could subscribe to it again."""
    gateway.positions.note("s", "e", 50)
    gateway.source.failing = [RequestFailed("behind", "x")]
    with pytest.raises(RequestFailed):
        await gateway.opened()
    assert gateway.positions.least("s") is None


@pytest.mark.parametrize(
    "receipt", [removed(4), removed(3), removed(9, epoch="earlier")], ids=["at it", "below it", "other epoch"]
)
async def test_a_removal_that_is_not_newer_than_the_scope_is_dropped(gateway: Gateway, receipt: RemovedReceipt) -> None:
    """G3: it may be of the session that had this id before."""
    await gateway.opened()
    del gateway.source.revisions["s"]
    reads = gateway.source.reads
    gateway.hub.receive(entry(receipt))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert gateway.source.reads - reads <= (receipt.epoch != "e")
    assert gateway.consumer.sent == []


async def test_a_removal_is_believed_once_the_source_confirms_it(gateway: Gateway) -> None:
    await gateway.opened()
    gateway.source.check_gate.clear()
    del gateway.source.revisions["s"]
    gateway.receive(removed(5))
    await settled(lambda: gateway.source.reads == 3)
    assert gateway.consumer.sent == [], "not before the read"
    gateway.source.check_gate.set()
    await settled(lambda: gateway.consumer.removals == 1)
    assert gateway.consumer.log() == ["terminal"]


async def test_a_removal_of_a_session_that_is_there_again_is_a_reset(gateway: Gateway) -> None:
    await gateway.opened()
    gateway.source.revisions["s"] = 6
    gateway.receive(removed(5))
    await settled(lambda: "reset" in gateway.consumer.log())
    gateway.receive(change(6))
    assert gateway.consumer.log() == ["reset", "6-7"]
    assert gateway.consumer.removals == 0


async def test_a_removal_that_is_not_visible_yet_is_asked_after_again(gateway: Gateway) -> None:
    await gateway.opened()
    gateway.receive(removed(5))
    await settled(lambda: gateway.source.reads == 3)
    del gateway.source.revisions["s"]
    await eventually(lambda: asyncio.sleep(0, gateway.consumer.removals == 1))
    assert gateway.consumer.log() == ["terminal"]


async def test_a_removal_held_while_a_scope_opens_concerns_that_scope_alone(gateway: Gateway) -> None:
    await gateway.opened("first")
    gateway.source.gate.clear()
    opening = asyncio.create_task(gateway.open(gateway.scope("second")))
    await settled(lambda: gateway.source.reads == 3)
    gateway.source.revisions["s"] = 7
    gateway.receive(removed(5), change(6))
    gateway.source.gate.set()
    await opening
    await settled(lambda: gateway.consumer.log("first")[-1:] == ["reset"])
    await settled(lambda: gateway.consumer.log("second")[-1:] == ["reset"])
    assert gateway.consumer.log("first").count("reset") == 1
    assert gateway.consumer.log("second").count("reset") == 1


async def test_a_session_made_again_whose_commit_is_not_visible_yet_is_looked_for_once_more(gateway: Gateway) -> None:
    """Its receipt came already. The readers tell it at once as missing, whoever asks."""
    scope = await gateway.opened()
    del gateway.source.revisions["s"]
    gateway.positions.note("s", "e", 9)
    gateway.hub.reset([scope])
    await settled(lambda: gateway.positions.least("s") is None)
    gateway.source.revisions["s"] = 9
    await eventually(lambda: asyncio.sleep(0, gateway.consumer.log() == ["reset"]))
    assert gateway.consumer.removals == 0
    del gateway.source.revisions["s"]
    gateway.hub.reset([scope])
    await eventually(lambda: asyncio.sleep(0, gateway.consumer.log()[-1:] == ["terminal"]))


async def test_a_check_concerns_only_scopes_that_were_open_when_it_was_asked(gateway: Gateway) -> None:
    """G3: the session was gone then, is there again, and the scope was opened on the second."""
    await gateway.opened("first")
    del gateway.source.revisions["s"]
    gateway.source.check_gate.clear()
    gateway.checks.after_loss([0])
    running = asyncio.create_task(gateway.checks.run())
    await settled(lambda: gateway.source.reads >= 3)
    gateway.source.revisions["s"] = 8
    await gateway.opened("second")
    gateway.source.check_gate.set()
    await settled(lambda: "terminal" in gateway.consumer.log("first"))
    running.cancel()
    await asyncio.wait([running])
    assert "terminal" not in gateway.consumer.log("second")
    assert gateway.consumer.removals == 0, "the connection still follows the session"


async def test_endings_survive_an_overflow(gateway: Gateway) -> None:
    """G3: and however the scopes end, the connection is told once."""
    await gateway.opened("first")
    await gateway.opened("second")
    gateway.consumer.room = False
    gateway.receive(change(5))
    del gateway.source.revisions["s"]
    gateway.receive(removed(6))
    await settled(lambda: gateway.consumer.removals == 1)
    assert gateway.consumer.log("first") == gateway.consumer.log("second") == ["terminal"]


async def test_scopes_that_end_one_by_one_are_one_removal(gateway: Gateway) -> None:
    scopes = [await gateway.opened(f"scope{number}") for number in range(3)]
    del gateway.source.revisions["s"]
    gateway.hub.reset(scopes)

    async def forgotten() -> int:
        return len(gateway.consumer.forgotten)

    # A revision was known: it may be that of a session made again, for which is looked once more after a moment.
    assert await eventually(forgotten, lambda number: number == 3) == 3
    assert gateway.consumer.removals == 1


@pytest.mark.parametrize("there_again", [True, False])
async def test_a_scope_that_is_opening_decides_whether_the_session_is_gone(gateway: Gateway, there_again: bool) -> None:
    """The first scope's session is gone; whoever opens on one made again must not be told so before its reply."""
    await gateway.opened("first")
    del gateway.source.revisions["s"]
    gateway.source.check_gate.clear()
    gateway.source.gate.clear()
    gateway.receive(removed(5))
    await settled(lambda: gateway.source.reads == 3)
    if there_again:
        gateway.source.revisions["s"] = 8
    opening = asyncio.create_task(gateway.open(gateway.scope("second")))
    await settled(lambda: gateway.source.reads == 4)
    gateway.source.check_gate.set()
    await settled(lambda: gateway.consumer.log("first") == ["terminal"])
    assert gateway.consumer.removals == 0
    gateway.source.gate.set()
    if there_again:
        await opening
        await gateway.check()
        assert gateway.consumer.removals == 0
        assert set(gateway.consumer.log("second")) == {"check 8"}
        del gateway.source.revisions["s"]
        await gateway.check()
        await settled(lambda: gateway.consumer.log("second")[-1:] == ["terminal"])
    else:
        with pytest.raises(RequestFailed):
            await opening
    assert gateway.consumer.removals == 1


async def test_a_check_says_no_less_than_what_was_sent(gateway: Gateway) -> None:
    """G4: receipts went on while the answer came."""
    await gateway.opened()
    gateway.source.check_gate.clear()
    gateway.checks.after_loss([0])
    running = asyncio.create_task(gateway.checks.run())
    await settled(lambda: gateway.source.reads >= 3)
    gateway.receive(change(5), change(6))
    gateway.source.check_gate.set()
    await settled(lambda: any("check" in each for each in gateway.consumer.log()))
    running.cancel()
    await asyncio.wait([running])
    assert gateway.consumer.log()[:3] == ["5-6", "6-7", "check 7"]


async def test_a_source_that_stays_below_what_was_sent_broke_and_resets(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G4."""
    monkeypatch.setattr(checks_module, "SETTLE_SECONDS", 0.0)
    await gateway.opened()
    gateway.receive(change(5), change(6))
    gateway.source.revisions["s"] = 6
    gateway.checks.after_loss([0])
    running = asyncio.create_task(gateway.checks.run())
    await settled(lambda: "reset" in gateway.consumer.log())
    running.cancel()
    await asyncio.wait([running])
    assert gateway.consumer.log() == ["5-6", "6-7", "reset"]


async def test_a_receipt_ahead_of_its_commits_visibility_is_no_broken_history(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G4: the second look shows it."""
    await gateway.opened()
    gateway.receive(change(5))
    look = gateway.source.check

    async def slowly(sessions: tuple[str, ...], readers: Mapping[str, tuple[str, ...]] | None = None) -> object:
        answer = await look(sessions, readers)
        gateway.source.revisions["s"] = 6
        return answer

    monkeypatch.setattr(checks_module, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(gateway.source, "check", slowly)
    gateway.checks.after_loss([0])
    running = asyncio.create_task(gateway.checks.run())
    await settled(lambda: "check 6" in gateway.consumer.log())
    running.cancel()
    await asyncio.wait([running])
    assert "reset" not in gateway.consumer.log()


async def test_a_revision_ahead_of_its_receipt_is_given_time(gateway: Gateway) -> None:
    """G4: the periodic check holds its tongue for a moment; one after a loss does not."""
    await gateway.opened()
    gateway.source.revisions["s"] = 6
    running = asyncio.create_task(gateway.checks.run())
    await settled(lambda: gateway.source.reads >= 3)
    await settled(lambda: (least := gateway.positions.least("s")) is not None and least.revision == 6)
    assert gateway.consumer.sent == []
    gateway.receive(change(5))
    gateway.checks.after_loss([0])
    await settled(lambda: "check 6" in gateway.consumer.log())
    running.cancel()
    await asyncio.wait([running])
    assert gateway.consumer.log() == ["5-6", "check 6"]


async def test_losses_are_checked_until_the_source_answers(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks_module, "SETTLE_SECONDS", 0.0)
    await gateway.opened()
    gateway.source.revisions["s"] = 9
    gateway.source.failing = [RequestFailed("unavailable", "x")] * 4
    gateway.checks.after_loss([0])
    running = asyncio.create_task(gateway.checks.run())
    await settled(lambda: "check 9" in gateway.consumer.log())
    running.cancel()
    await asyncio.wait([running])


@pytest.mark.parametrize("lost", ["hole", "term", "resync", "interruption"])
async def test_losses_are_checked_at_once(gateway: Gateway, lost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """T2. What a resync misses is told after the grace, which is none here."""
    monkeypatch.setattr(checks_module, "GRACE_SECONDS", 0.0)
    await gateway.opened()
    gateway.receive(change(5))
    gateway.source.revisions["s"] = 6
    running = asyncio.create_task(gateway.checks.run())
    await settled(lambda: gateway.source.reads >= 3)
    gateway.source.revisions["s"] = 8
    arrivals: dict[str, list[ReceiptEntry] | Interruption] = {
        "hole": [ReceiptEntry(0, "z", "change", 1, 3, b"")],
        "term": [ReceiptEntry(0, "z", "change", 2, 1, b"")],
        "resync": [ReceiptEntry(0, "", "resync", 2, 1, b"{}")],
        "interruption": Interruption(frozenset({0})),
    }
    gateway.intake.receive(arrivals[lost])
    await settled(lambda: "check 8" in gateway.consumer.log())
    running.cancel()
    await asyncio.wait([running])


async def test_what_a_new_leader_repeats_is_no_loss(gateway: Gateway) -> None:
    await gateway.opened()
    gateway.receive(change(5))
    running = asyncio.create_task(gateway.checks.run())
    await settled(lambda: gateway.source.reads >= 3)
    reads = gateway.source.reads
    gateway.source.revisions["s"] = 7
    gateway.intake.receive([ReceiptEntry(0, "", "resync", 2, 1, b"{}")])
    await settled(lambda: gateway.source.reads > reads)
    gateway.receive(change(6))
    running.cancel()
    await asyncio.wait([running])
    assert gateway.consumer.log()[-1] == "6-7"
    assert "check 7" not in gateway.consumer.log()


async def test_a_fresh_scope_gets_every_interval_by_itself(gateway: Gateway) -> None:
    """G5: its client reads pages at revisions in between."""
    await gateway.opened()
    gateway.receive(*[change(5 + number) for number in range(20)])
    assert gateway.consumer.log() == [f"{5 + number}-{6 + number}" for number in range(20)]


async def test_a_burst_is_joined_for_settled_scopes_and_cut_for_others(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G5: a scope that opened in between is told from its own revision on."""
    monkeypatch.setattr(scope_module, "FRESH_SECONDS", 0.0)
    await gateway.opened("first")
    for number in range(CALM_CHANGES + 3):
        gateway.receive(change(5 + number, upsert(message("m", content=str(number)))))
    singles = [f"{5 + number}-{6 + number}" for number in range(CALM_CHANGES)]
    middle, end = 5 + CALM_CHANGES, 5 + CALM_CHANGES + 3
    assert gateway.consumer.log("first") == singles
    gateway.source.revisions["s"] = middle + 1
    gateway.positions.forget("s")
    await gateway.opened("second")
    gateway.hub.flush("s")
    assert gateway.consumer.log("first") == [*singles, f"{middle}-{end}"]
    assert gateway.consumer.log("second") == [f"{middle + 1}-{end}"]


async def test_a_second_leaders_copies_are_not_joined_into_a_gap(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scope_module, "FRESH_SECONDS", 0.0)
    await gateway.opened()
    for number in range(CALM_CHANGES):
        gateway.receive(change(5 + number))
    at = 5 + CALM_CHANGES
    gateway.receive(change(at), change(at), change(at + 1), change(at), change(at + 1), change(at + 2))
    gateway.hub.flush("s")
    assert gateway.consumer.log()[CALM_CHANGES:] == [f"{at}-{at + 3}"]


async def test_what_waits_to_be_joined_ends_with_its_epoch(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """R4: revisions of the earlier epoch mean nothing in the next, even where they are higher."""
    monkeypatch.setattr(scope_module, "FRESH_SECONDS", 0.0)
    await gateway.opened()
    for number in range(CALM_CHANGES + 1):
        gateway.receive(change(5 + number))
    gateway.source.epoch, gateway.source.revisions["s"] = "f", 2
    gateway.hub.suspect()
    await settled(lambda: gateway.hub.epoch == "f")
    await eventually(lambda: asyncio.sleep(0, "reset" in gateway.consumer.log()))
    gateway.hub.flush("s")
    gateway.receive(change(2, epoch="f"))
    gateway.hub.flush("s")
    assert gateway.consumer.log()[CALM_CHANGES:] == ["reset", "2-3"]


async def test_a_receipt_of_another_epoch_is_dropped_and_makes_the_gateway_ask(gateway: Gateway) -> None:
    """R4: adopted only from the primary."""
    await gateway.opened()
    reads = gateway.source.reads
    gateway.receive(change(5, epoch="foreign"))
    await settled(lambda: gateway.source.reads == reads + 1)
    assert gateway.hub.epoch == "e"
    gateway.receive(change(5))
    assert gateway.consumer.log() == ["5-6"]


async def test_a_read_that_began_before_the_epoch_was_entered_is_made_again(gateway: Gateway) -> None:
    """Receipts of an epoch that is not entered are dropped, not held: what they told would be missed (G1)."""
    gateway.source.epoch, gateway.source.revisions["s"] = "f", 2
    gateway.source.gate.clear()
    opening = asyncio.create_task(gateway.open(gateway.scope()))
    await settled(lambda: gateway.source.reads == 2)
    gateway.source.revisions["s"] = 3
    gateway.receive(change(2, epoch="f"))
    await settled(lambda: gateway.hub.epoch == "f")
    gateway.source.gate.set()
    await opening
    gateway.receive(change(3, epoch="f"))
    assert (gateway.replies, gateway.consumer.log()) == ([("f", 3)], ["3-4"])


async def test_what_is_suspected_during_an_inquiry_is_asked_after_it(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "RETRY_SECONDS", 0.0)
    gateway.source.check_gate.clear()
    gateway.hub.suspect()
    await settled(lambda: gateway.source.reads == 2)
    gateway.source.epoch = "f"
    gateway.hub.suspect()
    gateway.source.check_gate.set()
    await settled(lambda: gateway.hub.epoch == "f")


async def test_a_scope_whose_reset_is_due_is_told_nothing_else(gateway: Gateway) -> None:
    """R4."""
    scope = await gateway.opened()
    gateway.source.epoch, gateway.source.revisions["s"] = "f", 40
    gateway.hub.suspect()
    await settled(lambda: gateway.hub.epoch == "f")
    gateway.receive(change(40, epoch="f"), change(41, epoch="f"))
    await gateway.check()
    assert "reset" in gateway.consumer.log()[:1] or scope.phase is not Phase.LIVE
    await eventually(lambda: asyncio.sleep(0, "reset" in gateway.consumer.log()))
    assert gateway.consumer.log()[0] == "reset"
    assert gateway.consumer.log().count("reset") == 1


async def test_a_scope_without_room_is_reset_once_there_is_room(gateway: Gateway) -> None:
    scope = await gateway.opened()
    gateway.consumer.room = False
    gateway.receive(change(5), change(6))
    assert scope.phase is Phase.AWAITING_RESET
    gateway.source.revisions["s"] = 7
    gateway.consumer.room = True
    gateway.receive(change(7))
    assert gateway.consumer.sent == []
    gateway.hub.reset_awaiting([scope])
    gateway.source.revisions["s"] = 8
    await settled(lambda: gateway.consumer.log() == ["reset"])
    await settled(lambda: scope.phase is Phase.LIVE)


async def test_a_reset_waits_for_the_source(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "RETRY_SECONDS", 0.0)
    scope = await gateway.opened()
    gateway.source.failing = [RequestFailed("unavailable", "x")] * 3
    gateway.hub.reset([scope])
    await settled(lambda: gateway.consumer.log() == ["reset"])


async def test_changes_do_not_pile_up_while_the_source_fails(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "RETRY_SECONDS", 0.0)
    scope = await gateway.opened()
    gateway.source.failing = [RequestFailed("unavailable", "x")]
    gateway.source.gate.clear()
    gateway.hub.reset([scope])
    gateway.receive(change(5), change(6))
    gateway.source.revisions["s"] = 7
    await settled(lambda: gateway.source.reads == 4)
    assert scope.held == []
    gateway.receive(change(7))
    gateway.source.gate.set()
    await settled(lambda: bool(gateway.consumer.log()))
    gateway.receive(change(8))
    assert gateway.consumer.log() == ["reset", "7-8", "8-9"]
