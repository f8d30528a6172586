"""A gateway's scopes, checks and intake on a source in memory."""

import asyncio

from services.gateway.receipts.intake import Intake
from services.gateway.scopes.checks import Checks
from services.gateway.scopes.hub import Hub
from services.gateway.scopes.memory import Memory
from services.gateway.scopes.projection import View
from services.gateway.scopes.scope import Grant, Scope
from services.gateway.source.positions import KnownPositions
from services.gateway.websocket.limits import Limits, Place
from shared.contracts.identity import LOCAL_USER, Identity
from shared.contracts.receipts import ChangeReceipt, RemovedReceipt
from tests.unit.gateway.memory_source import MemorySource, NotingConsumer, entry, settled


def place(scopes: int) -> Place:
    """A connection's place, for so many scopes."""
    return Limits(everybody=1, address=1, user=None, scopes=scopes).place("somebody", "somebody")


class MemoryEarlier:
    """Receipts from before anybody followed here."""

    def __init__(self) -> None:
        self.receipts: list[ChangeReceipt] = []
        self.garbage: list[bytes] = []
        self.looks = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def receipts_of(self, session_id: str) -> list[bytes]:
        self.looks += 1
        await self.gate.wait()
        return self.garbage + [
            each.model_dump_json().encode() for each in self.receipts if each.session_id == session_id
        ]


class Gateway:
    """A hub with its checks and its intake, on a source in memory."""

    def __init__(self) -> None:
        self.source = MemorySource()
        self.positions = KnownPositions()
        self.memory = Memory(8 << 20)
        self.earlier = MemoryEarlier()
        self.hub = Hub(self.source, self.positions, self.memory, self.earlier, spread=lambda: 0.0)
        self.checks = Checks(self.hub, self.source, self.positions, 1)
        self.intake = Intake(self.hub, self.checks, 1)
        self.consumer = NotingConsumer()
        self.replies: list[tuple[str, int]] = []
        self._sequence = 0

    def scope(
        self,
        scope_id: str = "scope",
        consumer: NotingConsumer | None = None,
        identity: Identity = LOCAL_USER,
        grant: Grant | None = None,
    ) -> Scope:
        """A scope of session `s` that is yet to be opened."""
        view = View("s", rows="core" if grant is None else "plugin")
        return Scope(id=scope_id, view=view, identity=identity, consumer=consumer or self.consumer, grant=grant)

    async def open(self, scope: Scope) -> None:
        """Opens a scope."""
        await self.hub.open(scope, lambda start, _resumed: self.replies.append((start.epoch, start.revision)))

    async def opened(
        self,
        scope_id: str = "scope",
        consumer: NotingConsumer | None = None,
        identity: Identity = LOCAL_USER,
        grant: Grant | None = None,
    ) -> Scope:
        """A scope that is open."""
        scope = self.scope(scope_id, consumer, identity, grant)
        await self.open(scope)
        return scope

    def receive(self, *receipts: ChangeReceipt | RemovedReceipt) -> None:
        """Receipts arrive, one after the other."""
        for receipt in receipts:
            self._sequence += 1
            self.intake.receive([entry(receipt, self._sequence)])

    async def check(self) -> None:
        """One check of every followed session, as after a loss."""
        self.checks.after_loss([0])
        before = self.source.reads
        running = asyncio.create_task(self.checks.run())
        await settled(lambda: self.source.reads > before)
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])
