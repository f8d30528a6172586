"""A stand-in for the source, and a consumer that notes its frames: for the order in which the hub does things."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from services.gateway.scopes.scope import Scope
from services.gateway.source.requests import Source
from services.gateway.websocket.framing import text_of
from shared.broker.receipts import ReceiptEntry
from shared.contracts.errors import RequestFailed
from shared.contracts.identity import Identity
from shared.contracts.reads import RevisionAnswer
from shared.contracts.receipts import ChangeReceipt, RemovedReceipt


class MemorySource(Source):
    """Revisions in memory. A read takes its answer when it begins; `gate` holds a subscription's
    back until it is opened, `check_gate` those for all.
    """

    def __init__(self) -> None:
        self.epoch = "e"
        self.revisions: dict[str, int] = {"s": 5}
        self.failing: list[RequestFailed] = []
        self.barred: set[tuple[str, str]] = set()
        """Pairs of a session and a user who may not read it."""
        self.reads = 0
        self.checked: list[tuple[str, ...]] = []
        """The sessions of each check."""
        self.gate = asyncio.Event()
        self.gate.set()
        self.check_gate = asyncio.Event()
        self.check_gate.set()

    async def revision(self, identity: Identity, session_id: str, *, authoritative: bool = False) -> RevisionAnswer:
        shown = () if (session_id, identity.user) in self.barred else (session_id,)
        return await self._answer(shown, {}, self.gate)

    async def check(
        self, sessions: tuple[str, ...], readers: Mapping[str, tuple[str, ...]] | None = None
    ) -> RevisionAnswer:
        self.checked.append(sessions)
        return await self._answer(sessions, readers or {}, self.check_gate)

    async def _answer(
        self, sessions: tuple[str, ...], readers: Mapping[str, tuple[str, ...]], gate: asyncio.Event
    ) -> RevisionAnswer:
        self.reads += 1
        if self.failing:
            raise self.failing.pop(0)
        found = {name: self.revisions[name] for name in sessions if name in self.revisions}
        refused = {
            name: barred
            for name in found
            if (barred := tuple(user for user in readers.get(name, ()) if (name, user) in self.barred))
        }
        tasks = dict.fromkeys(found, "t")
        answer = RevisionAnswer(epoch=self.epoch, primary=True, revisions=found, tasks=tasks, refused=refused)
        await gate.wait()
        return answer


class NotingConsumer:
    """Takes frames while it has room, and notes them parsed."""

    def __init__(self) -> None:
        self.room = True
        self.gathering = False
        self.gathered: list[int] = []
        """Frames that were sent together, each time that something was gathered."""
        self.sent: list[dict[str, Any]] = []  # any: parsed frames
        self.forgotten: list[Scope] = []

    def offer(self, frame: bytes | bytearray, owner: Scope) -> bool:
        if self.room:
            self.deliver(text_of(frame))
        return self.room

    def has_room(self, frames: int, size: int) -> bool:
        return self.room

    def gather(self) -> None:
        assert not self.gathering
        self.gathering = True
        self.gathered.append(-len(self.sent))

    def send_gathered(self) -> None:
        assert self.gathering
        self.gathering = False
        self.gathered[-1] += len(self.sent)

    def deliver(self, text: bytes) -> None:
        self.sent.append(orjson.loads(text))

    def forget(self, scope: Scope) -> None:
        self.forgotten.append(scope)

    def log(self, scope_id: str = "scope") -> list[str]:
        """What a scope was told, in short: `5-6`, `check 6`, `reset`, `terminal`."""
        return [short(each["payload"]) for each in self.sent if each["payload"].get("scope_id") == scope_id]

    @property
    def removals(self) -> int:
        """How many sessions were said to be gone."""
        return sum(each["action"] == "session.removed" for each in self.sent)


def short(payload: dict[str, Any]) -> str:
    """A frame in a word."""
    for flag in ("reset", "terminal"):
        if payload.get(flag):
            return flag
    if payload.get("check"):
        return f"check {payload['revision']}"
    return f"{payload['base_revision']}-{payload['revision']}"


def entry(receipt: ChangeReceipt | RemovedReceipt, sequence: int = 1) -> ReceiptEntry:
    """A receipt as it is read from its stream."""
    return ReceiptEntry(0, receipt.session_id, receipt.kind, 1, sequence, receipt.model_dump_json().encode())


async def settled(met: Callable[[], bool]) -> None:
    """Lets the event loop run until a condition holds. Bounded by turns, not by time."""
    for _ in range(100_000):
        if met():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not come to that")
