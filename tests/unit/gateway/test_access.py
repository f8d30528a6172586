"""Scopes whose user may not read the session any more, in every order in which that can be learnt (G10)."""

import asyncio

import pytest

from services.gateway.scopes import checks as checks_module
from services.gateway.scopes import frames
from services.gateway.scopes.projection import Projection
from services.gateway.scopes.resuming import Position
from services.gateway.scopes.scope import Phase, Scope, readers_of
from services.gateway.source import batches
from shared.contracts.control import AccessChanged, MembershipChanged
from shared.contracts.errors import RequestFailed
from shared.contracts.identity import LOCAL_USER, Identity
from tests.unit.gateway.in_memory import Gateway
from tests.unit.gateway.memory_source import settled
from tests.unit.gateway.receipts import change, removed

ANN, BOB = Identity(user="ann"), Identity(user="bob")


async def test_a_check_ends_the_scopes_of_those_who_may_not_read_any_more(gateway: Gateway) -> None:
    """One terminal frame each, and no word that the session is gone: it is not."""
    for number in range(2):
        await gateway.opened(f"ann{number}", identity=ANN)
    await gateway.opened("bob", identity=BOB)
    await gateway.opened("local")
    gateway.source.barred.add(("s", "ann"))
    await gateway.check()
    gateway.receive(change(5))
    for number in range(2):
        assert gateway.consumer.log(f"ann{number}") == ["terminal"]
    for other in ("bob", "local"):
        assert set(gateway.consumer.log(other)) == {"check 5", "5-6"}
    assert gateway.consumer.removals == 0
    assert {scope.id for scope in gateway.consumer.forgotten} == {"ann0", "ann1"}


async def test_nobody_asks_whether_an_unscoped_user_may_read(gateway: Gateway) -> None:
    scopes = [gateway.scope("a", identity=ANN), gateway.scope("b", identity=BOB), gateway.scope("c", identity=ANN)]
    assert readers_of([*scopes, gateway.scope("d", identity=LOCAL_USER)]) == {"s": ("ann", "bob")}


async def test_a_session_that_is_gone_is_told_as_gone(gateway: Gateway) -> None:
    await gateway.opened(identity=ANN)
    gateway.source.barred.add(("s", "ann"))
    del gateway.source.revisions["s"]
    await gateway.check()
    assert (gateway.consumer.log(), gateway.consumer.removals) == (["terminal"], 1)


async def test_changes_of_a_membership_are_looked_at_at_once(gateway: Gateway) -> None:
    await gateway.opened("ann", identity=ANN)
    await gateway.opened("bob", identity=BOB)
    running = asyncio.create_task(gateway.checks.run())
    gateway.source.barred.add(("s", "ann"))
    await gateway.checks.membership_changed(MembershipChanged(workspace_id="w", users=("zoe", "ann")))
    await settled(lambda: gateway.consumer.log("ann") == ["terminal"])
    running.cancel()
    await asyncio.wait([running])
    assert "terminal" not in gateway.consumer.log("bob")


async def test_a_workspace_that_was_everyones_is_looked_at_for_everyone(gateway: Gateway) -> None:
    await gateway.opened("ann", identity=ANN)
    await gateway.opened("bob", identity=BOB)
    running = asyncio.create_task(gateway.checks.run())
    gateway.source.barred.update({("s", "ann"), ("s", "bob")})
    await gateway.checks.membership_changed(MembershipChanged(workspace_id="w"))
    await settled(lambda: gateway.consumer.log("ann") == gateway.consumer.log("bob") == ["terminal"])
    running.cancel()
    await asyncio.wait([running])


async def test_changes_that_concern_nobody_here_ask_for_nothing(gateway: Gateway) -> None:
    await gateway.opened("bob", identity=BOB)
    reads = gateway.source.reads
    running = asyncio.create_task(gateway.checks._run_urgent())
    await gateway.checks.membership_changed(MembershipChanged(workspace_id="w", users=("ann",)))
    await gateway.checks.access_changed(AccessChanged(session_id="z"))
    for _ in range(100):
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running])
    assert gateway.source.reads == reads


@pytest.mark.parametrize(
    "news",
    [MembershipChanged(workspace_id="w", users=("ann",)), AccessChanged(session_id="s")],
    ids=lambda each: each.kind,
)
async def test_access_that_ends_while_a_scope_opens(gateway: Gateway, news: MembershipChanged | AccessChanged) -> None:
    """The answer under way may be from before: it is asked again."""
    gateway.source.gate.clear()
    opening = asyncio.create_task(gateway.open(gateway.scope(identity=ANN)))
    reads = gateway.source.reads
    await settled(lambda: gateway.source.reads > reads)
    gateway.source.barred.add(("s", "ann"))
    if isinstance(news, MembershipChanged):
        await gateway.checks.membership_changed(news)
    else:
        await gateway.checks.access_changed(news)
    gateway.source.gate.set()
    with pytest.raises(RequestFailed) as refused:
        await opening
    assert refused.value.failure.code == "not_found"
    assert (gateway.replies, gateway.consumer.sent) == ([], [])


async def test_access_that_ends_while_a_scope_is_reset(gateway: Gateway) -> None:
    """The reset's own read is refused: the session is there, so nobody is told that it is gone."""
    scope = await gateway.opened(identity=ANN)
    gateway.source.barred.add(("s", "ann"))
    gateway.hub.reset([scope])
    await settled(lambda: scope.phase is Phase.CLOSED)
    assert (gateway.consumer.log(), gateway.consumer.removals) == (["terminal"], 0)


async def test_a_scope_that_awaits_its_reset_is_ended_too(gateway: Gateway) -> None:
    """Endings survive a full queue (G3)."""
    scope = await gateway.opened(identity=ANN)
    gateway.consumer.room = False
    gateway.receive(change(5))
    assert scope.phase is Phase.AWAITING_RESET
    gateway.source.barred.add(("s", "ann"))
    await gateway.check()
    assert gateway.consumer.log() == ["terminal"]


async def test_a_refusal_from_before_a_scope_opened_does_not_end_it(gateway: Gateway) -> None:
    """Access was lost and given again; the check's read began in between (G3)."""
    first = await gateway.opened(identity=ANN)
    gateway.source.barred.add(("s", "ann"))
    gateway.source.check_gate.clear()
    checking = asyncio.create_task(gateway.check())
    reads = gateway.source.reads
    await settled(lambda: gateway.source.reads > reads)
    gateway.source.barred.clear()
    gateway.hub.close(first)
    await gateway.opened(identity=ANN)
    gateway.source.check_gate.set()
    await checking
    gateway.receive(change(5))
    assert gateway.consumer.log() == ["5-6"]


async def test_a_refusal_from_before_a_scope_was_reset_does_not_end_it(gateway: Gateway) -> None:
    """The same, where the scope itself has read the session since."""
    scope = await gateway.opened(identity=ANN)
    gateway.source.barred.add(("s", "ann"))
    gateway.source.check_gate.clear()
    reads = gateway.source.reads
    checking = asyncio.create_task(gateway.checks._check(["s"], 0.0))
    await settled(lambda: gateway.source.reads > reads)
    gateway.source.barred.clear()
    gateway.hub.reset([scope])
    await settled(lambda: scope.phase is Phase.LIVE)
    gateway.source.check_gate.set()
    await checking
    assert gateway.consumer.log() == ["reset"]


async def test_what_a_scope_that_awaits_its_reset_was_sent_breaks_no_history(gateway: Gateway) -> None:
    """It may be of another epoch: nothing is asked twice for it."""
    await gateway.opened()
    gateway.consumer.room = False
    gateway.receive(change(5))
    reads = gateway.source.reads
    await gateway.checks._check(["s"], 0.0)
    assert gateway.source.reads == reads + 1


async def test_nothing_follows_a_terminal_frame(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither what waited to be joined, nor a check that gave its receipt time, nor a removal."""
    monkeypatch.setattr(checks_module, "GRACE_SECONDS", 0.0)
    scope = await gateway.opened(identity=ANN)
    scope.opened_at -= 10.0
    for number in range(20):
        gateway.receive(change(5 + number))
    gateway.hub.revoke([scope])
    gateway.hub.flush("s")
    gateway.receive(change(25), removed(26))
    gateway.hub.revoke([scope])
    gateway.hub.end([scope])
    coverage = Projection(25, 26, ())
    scope.tell(coverage, frames.change("s", "e", coverage))
    scope.tell_check(26)
    await asyncio.sleep(0)
    log = gateway.consumer.log()
    assert log[-1] == "terminal"
    assert log.count("terminal") == 1
    assert gateway.consumer.removals == 0


async def test_a_scope_that_is_refused_with_its_reply_is_closed(gateway: Gateway) -> None:
    def refuse(start: Position, resumed: bool) -> None:
        raise ValueError(f"{start.epoch} {start.revision} {resumed}")

    scope = gateway.scope(identity=ANN)
    with pytest.raises(ValueError, match="e 5 False"):
        await gateway.hub.open(scope, refuse)
    assert scope.phase is Phase.CLOSED
    assert not gateway.hub.follows("s")
    assert gateway.consumer.sent == []


async def test_batches_are_bounded_by_sessions_and_by_readers(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "SESSIONS", 3)
    monkeypatch.setattr(batches, "READERS", 4)
    followed = {"a": 3, "b": 2, "c": 9, "d": 1, "e": 1, "f": 1, "g": 1}
    for name, readers in followed.items():
        gateway.source.revisions[name] = 1
        for number in range(readers):
            await gateway.open(_scope_of(gateway, name, number))
    found = [tuple(batch) for batch in gateway.checks._batches(gateway.hub.sessions)]
    assert found == [("a",), ("b",), ("c",), ("d", "e", "f"), ("g",)]


def _scope_of(gateway: Gateway, name: str, number: int) -> Scope:
    scope = gateway.scope(f"{name}{number}", identity=Identity(user=f"user{number}"))
    scope.view = type(scope.view)(name)
    return scope
