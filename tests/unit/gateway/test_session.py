"""The scopes of one session: who is told what together, and when."""

import asyncio

from services.gateway.scopes.joining import CALM_CHANGES
from services.gateway.scopes.projection import View
from services.gateway.scopes.scope import FRESH_SECONDS, Scope
from services.gateway.scopes.session import SessionScopes
from shared.contracts.identity import LOCAL_USER
from tests.support.waiting import eventually
from tests.unit.gateway.memory_source import NotingConsumer
from tests.unit.gateway.receipts import change, message, upsert

PROMPTS = View("s", authors=frozenset({"user"}))


def opened(session: SessionScopes, consumer: NotingConsumer, scope_id: str, view: View, at: float = 0.0) -> Scope:
    """A scope at revision 0 that opened at a time."""
    scope = Scope(id=scope_id, view=view, identity=LOCAL_USER, consumer=consumer)
    session.add(scope)
    scope.open_at("e", 0, at)
    return scope


def stream(session: SessionScopes, changes: int, now: float) -> None:
    """Changes of one message, all at one moment."""
    for base in range(changes):
        session.change(change(base, upsert(message("m", content=str(base)))), now)


async def test_frames_of_one_connection_go_out_together_and_others_as_they_come() -> None:
    session, panels, alone = SessionScopes("s"), NotingConsumer(), NotingConsumer()
    opened(session, panels, "all", View("s"))
    opened(session, panels, "prompts", PROMPTS)
    opened(session, alone, "alone", View("s"))
    stream(session, 1, FRESH_SECONDS)
    assert panels.gathered == [2]
    assert (panels.log("all"), panels.log("prompts"), alone.log("alone")) == (["0-1"], ["0-1"], ["0-1"])
    assert alone.gathered == []


async def test_a_connection_with_one_scope_left_gathers_no_more() -> None:
    session, panels = SessionScopes("s"), NotingConsumer()
    opened(session, panels, "all", View("s"))
    session.discard(opened(session, panels, "prompts", PROMPTS))
    stream(session, 1, FRESH_SECONDS)
    assert (panels.gathered, panels.log("all")) == ([], ["0-1"])


async def test_a_scope_that_opens_again_counts_once() -> None:
    session, consumer = SessionScopes("s"), NotingConsumer()
    scope = opened(session, consumer, "all", View("s"))
    session.add(scope)
    stream(session, 1, FRESH_SECONDS)
    assert consumer.gathered == []
    session.discard(scope)
    assert not session


async def test_what_was_joined_goes_to_all_views_together() -> None:
    session, panels = SessionScopes("s"), NotingConsumer()
    opened(session, panels, "all", View("s"))
    opened(session, panels, "prompts", PROMPTS)
    now = asyncio.get_running_loop().time() + FRESH_SECONDS
    stream(session, CALM_CHANGES + 3, now)
    alone = [f"{base}-{base + 1}" for base in range(CALM_CHANGES)]
    joined = f"{CALM_CHANGES}-{CALM_CHANGES + 3}"
    assert panels.log("all") == panels.log("prompts") == alone

    async def told() -> int:
        return len(panels.sent)

    await eventually(told, lambda count: count > 2 * CALM_CHANGES)
    assert panels.log("all") == panels.log("prompts") == [*alone, joined]
    assert panels.gathered[-1] == 2


async def test_a_fresh_scope_is_told_each_interval_while_others_wait() -> None:
    session, settled, new = SessionScopes("s"), NotingConsumer(), NotingConsumer()
    now = asyncio.get_running_loop().time()
    opened(session, settled, "settled", View("s"), now - FRESH_SECONDS)
    opened(session, new, "new", View("s"), now)
    changes = CALM_CHANGES + 2
    stream(session, changes, now)
    assert new.log("new") == [f"{base}-{base + 1}" for base in range(changes)]
    session.flush()
    assert settled.log("settled")[CALM_CHANGES:] == [f"{CALM_CHANGES}-{changes}"]
    assert len(new.log("new")) == changes


async def test_nothing_waits_once_nobody_is_there() -> None:
    session, consumer = SessionScopes("s"), NotingConsumer()
    scope = opened(session, consumer, "all", View("s"))
    now = asyncio.get_running_loop().time() + FRESH_SECONDS
    stream(session, CALM_CHANGES + 1, now)
    session.discard(scope)
    opened(session, consumer, "next", View("s"))
    session.flush()
    assert consumer.log("next") == []
