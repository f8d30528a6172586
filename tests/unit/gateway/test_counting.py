"""What a gateway counts of receipts, checks and resets."""

import asyncio
from dataclasses import replace

import pytest

from services.gateway.identity.caller import LOCAL_CALLER
from services.gateway.metrics import METRICS
from services.gateway.scopes import checks as checks_module
from services.gateway.scopes.scope import Phase
from services.gateway.websocket.connection import Connection
from shared.broker.receipts import Interruption, ReceiptEntry
from shared.contracts.errors import RequestFailed
from shared.contracts.identity import Identity
from tests.support.counting import counting
from tests.unit.gateway.in_memory import Gateway, place
from tests.unit.gateway.memory_source import NotingConsumer, entry, settled
from tests.unit.gateway.receipts import change, removed

CHECKS, FOUND = "kandev_gateway_checks_total", "kandev_gateway_check_findings_total"
RESETS = "kandev_gateway_resets_total"


async def test_gaps_by_what_showed_them(gateway: Gateway) -> None:
    batch = [
        ReceiptEntry(0, "z", "change", 1, 1, b""),
        ReceiptEntry(0, "z", "change", 1, 3, b""),
        ReceiptEntry(0, "", "resync", 2, 1, b"{}"),
    ]
    with counting(METRICS) as counted:
        gateway.intake.receive(batch)
        gateway.intake.receive(Interruption(frozenset({0, 1})))
    found = {cause: counted["kandev_gateway_gaps_total", cause] for cause in ("sequence", "term", "connection")}
    assert found == {"sequence": 1, "term": 1, "connection": 2}


async def test_receipts_that_are_followed_are_timed_and_others_passed_over(gateway: Gateway) -> None:
    await gateway.opened()
    with counting(METRICS) as counted:
        gateway.intake.receive([entry(change(5)), ReceiptEntry(0, "z", "change", 1, 2, b"", written_ms=1000)])
    assert counted["kandev_gateway_receipts_total", "followed"] == 1
    assert counted["kandev_gateway_receipts_total", "passed_over"] == 1
    assert counted["kandev_gateway_delivery_seconds_count"] == 1


async def test_a_receipt_of_the_future_took_no_time(gateway: Gateway) -> None:
    await gateway.opened()
    with counting(METRICS) as counted:
        gateway.intake.receive([replace(entry(change(5)), written_ms=1 << 50)])
    assert counted["kandev_gateway_delivery_seconds_count"] == 1
    assert counted["kandev_gateway_delivery_seconds_sum"] == 0


async def test_checks_that_are_answered_and_what_they_found(gateway: Gateway) -> None:
    await gateway.opened()
    gateway.source.revisions["s"] = 6
    made = len(gateway.source.checked)
    with counting(METRICS) as counted:
        await gateway.check()
    made = len(gateway.source.checked) - made
    assert counted[CHECKS, "answered"] == counted["kandev_gateway_checked_sessions_total"] == made
    assert counted[FOUND, "ahead"] == made
    gateway.receive(change(5))
    with counting(METRICS) as counted:
        await gateway.check()
    assert counted[FOUND, "ahead"] == 0
    del gateway.source.revisions["s"]
    with counting(METRICS) as counted:
        await gateway.check()
    assert counted[FOUND, "gone"] >= 1


async def test_readers_who_may_not_read_any_more(gateway: Gateway) -> None:
    await gateway.opened(identity=Identity(user="bob", unscoped=False, credential="c"))
    gateway.source.barred.add(("s", "bob"))
    with counting(METRICS) as counted:
        await gateway.check()
    assert counted[FOUND, "refused"] >= 1


async def test_checks_that_fail_or_are_of_another_epoch(gateway: Gateway) -> None:
    await gateway.opened()
    gateway.source.failing.append(RequestFailed("unavailable", "no"))
    with counting(METRICS) as counted:
        await gateway.check()
    assert counted[CHECKS, "failed"] == 1
    gateway.source.epoch = "f"
    with counting(METRICS) as counted:
        await gateway.check()
        await settled(lambda: "reset" in gateway.consumer.log())
    assert counted[CHECKS, "other_epoch"] >= 1
    assert counted[RESETS, "epoch"] == 1


async def test_history_that_broke_and_a_session_made_again(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks_module, "SETTLE_SECONDS", 0.0)
    await gateway.opened()
    gateway.receive(change(5), change(6))
    gateway.source.revisions["s"] = 6
    with counting(METRICS) as counted:
        gateway.checks.after_loss([0])
        running = asyncio.create_task(gateway.checks.run())
        await settled(lambda: "reset" in gateway.consumer.log())
        running.cancel()
        await asyncio.wait([running])
    assert counted[FOUND, "below"] >= 1
    assert counted[RESETS, "history"] == 1
    gateway.source.revisions["s"] = 8
    with counting(METRICS) as counted:
        gateway.receive(removed(7))
        await settled(lambda: gateway.consumer.log().count("reset") == 2)
    assert counted[RESETS, "recreated"] == 1


async def test_an_incomplete_receipt_resets_every_live_scope(gateway: Gateway) -> None:
    await gateway.opened("one")
    await gateway.opened("two", NotingConsumer())
    with counting(METRICS) as counted:
        gateway.receive(change(5).model_copy(update={"complete": False}))
    assert counted[RESETS, "incomplete"] == 2


async def test_scopes_whose_client_had_no_room_are_counted_once_it_has(gateway: Gateway) -> None:
    connection = Connection(LOCAL_CALLER, gateway.hub, {}, place(2))
    live, awaiting = await gateway.opened("live"), await gateway.opened("awaiting")
    connection.scopes.update({"live": live, "awaiting": awaiting})
    awaiting.await_reset()
    with counting(METRICS) as counted:
        connection._has_room()
        await settled(lambda: awaiting.phase is Phase.LIVE)
    assert counted[RESETS, "overflow"] == 1
    assert gateway.consumer.log("awaiting") == ["reset"]
    assert gateway.consumer.log("live") == []
