"""Scopes are counted exactly, however they begin and end."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack

from hypothesis import given
from hypothesis import strategies as st

from services.gateway.identity.caller import LOCAL_CALLER
from services.gateway.scopes.grants import Grants
from services.gateway.websocket.connection import Connection
from services.gateway.websocket.limits import Limits
from services.gateway.websocket.session_pushes import SessionPushes
from services.gateway.websocket.subscriptions import Subscriptions
from shared.contracts.errors import RequestFailed
from shared.contracts.wire import SESSION_SUBSCRIBE, SESSION_UNSUBSCRIBE, SUBSCRIBE, UNSUBSCRIBE, ClientMessage
from tests.unit.gateway.in_memory import Gateway

MOST = 4

SCOPES = ("one", "two", "three")
STEPS = st.sampled_from(
    [
        *((SUBSCRIBE, scope, session) for scope in SCOPES for session in ("s", "missing")),
        *((UNSUBSCRIBE, scope, "") for scope in SCOPES),
        *((action, "", session) for action in (SESSION_SUBSCRIBE, SESSION_UNSUBSCRIBE) for session in ("s", "missing")),
        ("fails", "", ""),
        ("removed", "", ""),
        ("held back", "", ""),
        ("let go", "", ""),
        ("closed", "", ""),
    ]
)


class NoGrants(Grants):
    """Grants that nobody asks: there is no plugin here."""

    def __init__(self) -> None:
        """Nothing is needed."""


class Clients:
    """Two connections of one user."""

    def __init__(self) -> None:
        self.gateway = Gateway()
        self.limits = Limits(everybody=10, address=10, user=10, scopes=MOST)
        self._places = ExitStack()
        subscriptions = Subscriptions(self.gateway.hub, NoGrants())
        pushes = SessionPushes(self.gateway.source, self.gateway.hub)
        self._actions = {**subscriptions.actions(), **pushes.actions()}
        self.connections = [
            Connection(
                LOCAL_CALLER, self.gateway.hub, self._actions, self._places.enter_context(self.limits.place("a", "u"))
            )
            for _ in range(2)
        ]
        self._tasks: list[asyncio.Task[None]] = []

    async def do(self, which: int, what: str, scope: str, session: str) -> None:
        """One step, and some turns of the event loop."""
        others: dict[str, Callable[[], object]] = {
            "fails": lambda: self.gateway.source.failing.append(RequestFailed("unavailable", "as told")),
            "removed": lambda: self.gateway.hub.end(self.gateway.hub.scopes_of("s")),
            "held back": self.gateway.source.gate.clear,
            "let go": self.gateway.source.gate.set,
            "closed": self.connections[which]._let_go,
        }
        if what in others:
            others[what]()
        else:
            payload = {"session_id": session} | ({"scope_id": scope} if scope else {})
            payload |= {"consumer_kind": "core"} if what == SUBSCRIBE else {}
            if what == UNSUBSCRIBE:
                del payload["session_id"]
            message = ClientMessage(id="1", type="request", action=what, payload=payload)
            self._tasks.append(asyncio.ensure_future(self._actions[what](self.connections[which], message)))
        for _ in range(8):
            await asyncio.sleep(0)

    async def end(self) -> None:
        """Everything under way comes to its end, and the connections leave."""
        self.gateway.source.gate.set()
        await asyncio.gather(*self._tasks)
        self.check()
        self._places.close()
        assert self.limits.scopes == 0
        await self.gateway.hub.stop()

    def check(self) -> None:
        """What is counted is what there is."""
        assert self.limits.scopes == sum(len(connection.scopes) for connection in self.connections) <= MOST


@given(st.lists(st.tuples(st.integers(0, 1), STEPS), max_size=30))
def test_the_count_is_what_there_is(steps: list[tuple[int, tuple[str, str, str]]]) -> None:
    async def run() -> None:
        clients = Clients()
        for which, step in steps:
            await clients.do(which, *step)
            clients.check()
        await clients.end()

    asyncio.run(run())
