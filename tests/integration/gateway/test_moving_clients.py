"""Clients that move between gateways, whatever became of the receipts in between (G6).

Everything between the commit and the client is real, Redis included, but for the source, which is in memory: so what a
client shows can be compared with the source at the client's own revision, at every step of a random walk.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
from pydantic import SecretStr
from redis.asyncio import Redis

from services.gateway.receipts.intake import Intake
from services.gateway.receipts.recalling import Recalling
from services.gateway.scopes import hub as hub_module
from services.gateway.scopes import memory as memory_module
from services.gateway.scopes.checks import Checks
from services.gateway.scopes.hub import Hub
from services.gateway.scopes.memory import RUN_OVERHEAD, Memory
from services.gateway.scopes.projection import View
from services.gateway.scopes.resuming import Position
from services.gateway.scopes.scope import Phase, Scope
from services.gateway.source.positions import KnownPositions
from services.gateway.websocket.framing import text_of
from shared.broker import receipts as receipts_module
from shared.broker.connection import connect
from shared.broker.receipts import Outgoing, ReceiptReader, ReceiptWriter
from shared.contracts import streams
from shared.contracts.control import AccessChanged
from shared.contracts.errors import RequestFailed
from shared.contracts.identity import Identity
from shared.contracts.receipts import ChangeReceipt, Operation, RemovedReceipt
from shared.contracts.rows import AuthorType, MessageRow
from tests.support.waiting import eventually
from tests.unit.gateway.memory_source import MemorySource
from tests.unit.gateway.receipts import NOON, message, remove, selection, upsert

PARTITIONS = 2
SESSIONS = ("s0", "s1", "s2", "s3")
TASKS = ("t", "other")
AUTHORS: tuple[AuthorType, ...] = ("user", "agent")
CHOICES: tuple[frozenset[AuthorType], ...] = (frozenset(), frozenset(("user",)), frozenset(("agent",)))
GATEWAYS = 3
CLIENTS = 12
STEPS = 220

Rows = dict[str, MessageRow]
Shown = dict[str, str]


@dataclass(slots=True)
class Told:
    """A commit as the log has it, for whichever tracker leads."""

    receipts: list[ChangeReceipt | RemovedReceipt]


class World:
    """The source, with every state that it was ever in, and the log of its commits."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.source = MemorySource()
        self.source.revisions = dict.fromkeys(SESSIONS, 1)
        self.rows: dict[str, Rows] = {name: {} for name in SESSIONS}
        self.states: dict[tuple[str, str, int], Rows] = {}
        self.log: list[Told] = []
        self.written = 0
        self._floor = 1
        self._backups: list[tuple[dict[str, Rows], dict[str, int]]] = []
        for name in SESSIONS:
            self._note(name)

    def _note(self, session: str) -> None:
        self.states[self.source.epoch, session, self.source.revisions[session]] = dict(self.rows[session])

    def commit(self, session: str) -> None:
        """Writes a few rows, one of which may go to another session."""
        changed: dict[str, list[Operation]] = {}
        for _ in range(self.chance.choice((1, 1, 2, 4))):
            self._write(session, changed)
        receipts: list[ChangeReceipt | RemovedReceipt] = []
        for name, operations in changed.items():
            base, steps = self.source.revisions[name], self.chance.choice((1, 1, 1, 2))
            self.source.revisions[name] = base + steps
            self._note(name)
            complete = self.chance.random() > 0.06
            receipts.append(
                ChangeReceipt(
                    session_id=name,
                    epoch=self.source.epoch,
                    base_revision=base,
                    revision=base + steps,
                    complete=complete,
                    operations=tuple(operations) if complete else (),
                    committed_at=NOON,
                )
            )
        self.log.append(Told(receipts))
        self._backups.append(({name: dict(rows) for name, rows in self.rows.items()}, dict(self.source.revisions)))

    def _write(self, session: str, changed: dict[str, list[Operation]]) -> None:
        rows, chance = self.rows[session], self.chance
        touched = {operation.id for operations in changed.values() for operation in operations}
        known = [row for row in rows.values() if row.id not in touched]
        kind = chance.choice(("add", "change", "change", "delete", "move")) if known else "add"
        self.written += 1
        row = message(f"m{self.written}", session, chance.choice(TASKS), chance.choice(AUTHORS), f"text {self.written}")
        if kind == "add":
            before = None
        else:
            before = chance.choice(known)
            row = row.model_copy(update={"id": before.id})
        if kind == "delete" and before is not None:
            del rows[before.id]
            changed.setdefault(session, []).append(remove(before))
        elif kind == "move" and before is not None:
            there = chance.choice([name for name in SESSIONS if name != session and name in self.source.revisions])
            row = row.model_copy(update={"session_id": there})
            del rows[before.id]
            self.rows[there][row.id] = row
            changed.setdefault(session, []).append(remove(before))
            changed.setdefault(there, []).append(upsert(row, before))
        else:
            rows[row.id] = row
            changed.setdefault(session, []).append(upsert(row, before))

    def make_again(self, session: str) -> None:
        """Deletes a session and makes it again under its id: it begins at the floor (R1)."""
        base = self.source.revisions[session]
        self._floor = max(self._floor, base + 1)
        gone = RemovedReceipt(
            session_id=session, epoch=self.source.epoch, base_revision=base, revision=base + 1, committed_at=NOON
        )
        self.log.append(Told([gone]))
        self.rows[session] = {}
        self.source.revisions[session] = self._floor
        self._note(session)

    def restore(self) -> None:
        """Goes back to what was, in another epoch: its revisions come again with other rows."""
        if self._backups:
            rows, revisions = self.chance.choice(self._backups[-12:])
            self.rows, self.source.revisions = {name: dict(kept) for name, kept in rows.items()}, dict(revisions)
        self.source.epoch = f"e{len(self.states)}"
        for name in SESSIONS:
            self._note(name)

    def shown(self, view: View, epoch: str, revision: int) -> Shown:
        """What a view shows of its session, as it stood at a revision."""
        rows = self.states[epoch, view.session_id, revision].values()
        return {row.id: row.content for row in rows if view.selects("message", selection(row))}


class Trackers:
    """Leaders one after the other. An earlier one may go on writing for a while beside its successor."""

    def __init__(self, redis: Redis, world: World) -> None:
        self._redis = redis
        self._world = world
        self._terms = 0
        self._places: list[tuple[ReceiptWriter, int]] = []

    async def hand_over(self) -> None:
        """The next one begins, and repeats what was told last."""
        self._terms += 1
        writer = ReceiptWriter(self._redis, PARTITIONS)
        await writer.begin_term(self._terms, self._world.source.epoch)
        place = self._places[-1][1] if self._places else 0
        repeated = max(0, place - self._world.chance.randrange(12))
        self._places = [*self._places[-1:], (writer, repeated)]

    async def tell(self, *, lose: bool = False, leader: int = -1) -> None:
        """One of them publishes what it has not yet, or loses some of it."""
        leader = max(leader, -len(self._places))
        writer, place = self._places[leader]
        entries = [
            Outgoing(receipt.session_id, receipt.kind, receipt.model_dump_json().encode())
            for told in self._world.log[place:]
            if not (lose and self._world.chance.random() < 0.5)
            for receipt in told.receipts
        ]
        self._places[leader] = writer, len(self._world.log)
        await writer.publish(entries)


class Gateway:
    """One gateway without its sockets."""

    def __init__(self, redis: Redis, reading: Redis, world: World) -> None:
        positions = KnownPositions()
        self.recalling = Recalling(redis, PARTITIONS, pause=0.0)
        self.hub = Hub(world.source, positions, Memory(40_000), self.recalling, spread=lambda: 0.0)
        self.checks = Checks(self.hub, world.source, positions, PARTITIONS)
        self.receipts = ReceiptReader(reading, PARTITIONS)
        self._intake = Intake(self.hub, self.checks, PARTITIONS)

    async def run(self) -> None:
        """Reads and checks until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.receipts.run(self._intake.receive))
            group.create_task(self.checks.run())


@asynccontextmanager
async def gateways(redis: Redis, url: str, world: World) -> AsyncIterator[list[Gateway]]:
    """Gateways that run."""
    async with AsyncExitStack() as stack:
        group = await stack.enter_async_context(asyncio.TaskGroup())
        made = []
        for _ in range(GATEWAYS):
            reading = await stack.enter_async_context(connect(SecretStr(url)))
            gateway = Gateway(redis, reading, world)
            await gateway.receipts.start()
            await gateway.hub.learn_epoch()
            stack.push_async_callback(gateway.recalling.close)
            stack.push_async_callback(gateway.hub.stop)
            stack.callback(group.create_task(gateway.run()).cancel)
            made.append(gateway)
        yield made


@dataclass(slots=True)
class Client:
    """Does with frames what every client should (C1), and compares after each of them. It is its scopes' consumer."""

    name: str
    world: World
    view: View
    epoch: str = ""
    applied: int = -1
    rows: Shown = field(default_factory=dict)
    scope: Scope | None = None
    gateway: Gateway | None = None
    live: bool = False
    owed: int = -1
    """What it must be told without a gap, since it was told that it may go on."""
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    """What must not have happened. Noted: what is raised in a task of the gateway may only be logged there."""

    def __hash__(self) -> int:
        return id(self)

    @property
    def identity(self) -> Identity:
        return Identity(user=self.name, unscoped=False, credential="session")

    @property
    def barred(self) -> bool:
        return (self.view.session_id, self.name) in self.world.source.barred

    async def come(self, gateway: Gateway, number: int) -> None:
        """Subscribes, from where it stands if it was live."""
        held = Position(self.epoch, self.applied) if self.live else None
        scope = Scope(id=f"{self.name}-{number}", view=self.view, identity=self.identity, consumer=self)
        self.scope, self.gateway, self.live, self.owed = scope, gateway, False, -1
        asked_at = self.world.source.revisions[self.view.session_id]

        def reply(start: Position, resumed: bool) -> None:
            if self.barred:
                self.wrong.append("opened although access was lost")
            if held is not None:
                self.counts["resumed" if resumed else "not resumed"] += 1
                self.counts["bridged"] += resumed and held.revision < self.world.source.revisions[self.view.session_id]
            if not resumed:
                self.repair()
            else:
                self.owed = asked_at
            if start.epoch != gateway.hub.epoch or (resumed and start != held):
                self.wrong.append(f"went on from {start}, not {held}")
            self.live = True
            self.compare()

        try:
            await gateway.hub.open(scope, reply, held)
            if self.scope is scope and self.applied < self.owed:
                self.wrong.append(f"told that it goes on from {held}, and only what leads to {self.applied}")
        except RequestFailed as failed:
            if failed.failure.code != "not_found":
                self.wrong.append(f"refused: {failed.failure.code}")

    def leave(self) -> None:
        """Loses its connection."""
        if self.scope is not None and self.gateway is not None:
            self.gateway.hub.close(self.scope)
        self.scope = None

    def repair(self) -> None:
        """Reads, all at once."""
        if self.applied < self.owed:
            self.wrong.append(f"told that it goes on, and has to read at {self.applied}")
        self.owed = -1
        self.counts["reads"] += 1
        self.epoch, self.applied = self.world.source.epoch, self.world.source.revisions[self.view.session_id]
        self.rows = self.world.shown(self.view, self.epoch, self.applied)

    def compare(self) -> None:
        if self.rows != self.world.shown(self.view, self.epoch, self.applied):
            self.wrong.append(f"{self.view} at {self.applied} of {self.epoch}")

    def offer(self, frame: bytes | bytearray, owner: Scope) -> bool:
        self.deliver(text_of(frame))
        return True

    def deliver(self, text: bytes) -> None:
        told = orjson.loads(text)
        payload = told["payload"]
        if self.scope is None or payload.get("scope_id") != self.scope.id:
            return
        if not self.live:
            self.wrong.append("a frame before the reply")
        if payload.get("terminal"):
            self.counts["ends"] += 1
            self.live, self.scope = False, None
        elif payload.get("reset") or payload["epoch"] != self.epoch:
            self.repair()
        elif payload.get("check"):
            if int(payload["revision"]) > self.applied:
                self.repair()
        elif int(payload["revision"]) > self.applied:
            if int(payload["base_revision"]) != self.applied:
                self.counts["gaps"] += 1
                self.repair()
            else:
                self._apply(payload)
        self.compare()

    def _apply(self, payload: dict[str, Any]) -> None:  # Any: parsed JSON
        for operation in payload["operations"]:
            if operation["kind"] == "upsert":
                self.rows[operation["id"]] = operation["message"]["content"]
            else:
                self.rows.pop(operation["id"], None)
        self.applied = int(payload["revision"])

    def has_room(self, frames: int, size: int) -> bool:
        return True

    def gather(self) -> None:
        pass

    def send_gathered(self) -> None:
        pass

    def forget(self, scope: Scope) -> None:
        pass


class Walk:
    """A random walk of everything that can happen."""

    def __init__(self, redis: Redis, world: World, there: Sequence[Gateway]) -> None:
        self.redis = redis
        self.world = world
        self.chance = world.chance
        self.gateways = there
        self.trackers = Trackers(redis, world)
        self.clients = [
            Client(f"c{number}", world, View(SESSIONS[number % len(SESSIONS)], task, self.chance.choice(CHOICES)))
            for number, task in zip(range(CLIENTS), (None, *TASKS) * CLIENTS, strict=False)
        ]
        self._numbers = 0
        self._coming: set[asyncio.Task[None]] = set()

    def come(self, client: Client) -> None:
        self._numbers += 1
        client.leave()
        task = asyncio.create_task(client.come(self.chance.choice(self.gateways), self._numbers))
        self._coming.add(task)

    async def arrived(self) -> None:
        """Whoever comes is there."""
        coming, self._coming = self._coming, set()
        await asyncio.gather(*coming)

    async def step(self) -> None:
        chance, world = self.chance, self.world
        session, client = chance.choice(SESSIONS), chance.choice(self.clients)
        kinds: dict[str, int] = {
            "commit": 30, "tell": 20, "lose": 1, "zombie": 2, "hand over": 2, "trim": 2, "empty": 1, "hole": 2,
            "again": 1, "restore": 1, "leave": 12, "come": 20, "storm": 2, "bar": 2, "pause": 12, "garbage": 1,
        }  # fmt: skip
        kind = chance.choices(list(kinds), list(kinds.values()))[0]
        stream = streams.receipts(chance.randrange(PARTITIONS))
        if kind == "commit":
            world.commit(session)
        elif kind in {"tell", "lose", "zombie"}:
            await self.trackers.tell(lose=kind == "lose", leader=-2 if kind == "zombie" else -1)
        elif kind == "hand over":
            await self.trackers.hand_over()
        elif kind == "trim":
            await self.redis.xtrim(stream, maxlen=chance.randrange(20), approximate=False)
        elif kind == "empty":
            await self.redis.flushdb()
        elif kind == "hole":
            ids = [entry[0] for entry in await self.redis.xrange(stream) or () if entry[0] is not None]
            if ids:
                await self.redis.xdel(stream, chance.choice(ids))
        elif kind == "garbage":
            await self.redis.xadd(stream, {"s": session, "k": "change", "t": 1, "q": 1, "r": b"{}"})
        elif kind == "again":
            world.make_again(session)
        elif kind == "restore":
            world.restore()
            for gateway in self.gateways:
                gateway.hub.suspect()
        elif kind == "leave":
            client.leave()
        elif kind == "come":
            self.come(client)
        elif kind == "storm":
            for each in self.clients:
                self.come(each)
        elif kind == "bar":
            world.source.barred ^= {(client.view.session_id, client.name)}
            for gateway in self.gateways:
                await gateway.checks.access_changed(AccessChanged(session_id=client.view.session_id))
        else:
            await asyncio.sleep(chance.choice((0.0, 0.001, 0.005)))

    async def run(self) -> Counter[str]:
        """Walks, then calms down; every client ends with the source's rows."""
        await self.trackers.hand_over()
        for client in self.clients:
            self.come(client)
        for _ in range(STEPS):
            await self.step()
        await self.arrived()
        self.world.source.barred.clear()
        for client in self.clients:
            if client.scope is None or client.scope.phase is Phase.CLOSED:
                self.come(client)
        await self.arrived()
        await self.trackers.hand_over()
        for session in SESSIONS:
            self.world.commit(session)
        await self.trackers.tell()
        await eventually(self._all_current)
        assert not [wrong for client in self.clients for wrong in client.wrong]
        return sum((client.counts for client in self.clients), Counter[str]())

    async def _all_current(self) -> bool:
        source = self.world.source
        return all(
            (client.epoch, client.applied) == (source.epoch, source.revisions[client.view.session_id])
            for client in self.clients
        )


@pytest.mark.parametrize("seed", range(12))
async def test_whoever_goes_on_elsewhere_shows_the_source(
    redis: Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(hub_module, "ARRIVAL_SECONDS", 0.02)
    monkeypatch.setattr(hub_module, "VISIBILITY_SECONDS", 0.002)
    monkeypatch.setattr(memory_module, "SESSION_BYTES", RUN_OVERHEAD + 12_000)
    monkeypatch.setattr(receipts_module, "READ_COUNT", 3)
    world = World(random.Random(seed))
    async with gateways(redis, redis_url, world) as there:
        counts = await Walk(redis, world, there).run()
    assert counts["bridged"]
