"""A source, a gateway and a lossy connection in memory: what the follower's decisions are tested against."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from client.consumer import step
from client.events import (
    Connected,
    Disconnected,
    Effect,
    Event,
    FrameReceived,
    LoadEnded,
    MessagesRead,
    PageFailed,
    Position,
    ReadMessages,
    ReadTurns,
    Resubscribe,
    Subscribed,
    Tick,
    TurnsRead,
)
from client.range import Body, Filter, Key, row_of
from client.repair import Moment
from client.state import Scope, State
from shared.contracts.rows import AuthorType, Entity
from shared.contracts.wire import CoreMessage, CoreTurn

SESSION = "session"
Name = tuple[Entity, str]
Snapshot = dict[Name, Body]


def message(
    row_id: str, second: int, content: str = "", *, author: AuthorType = "user", task: str = "task"
) -> CoreMessage:
    """A message; rows of one second are ordered by id."""
    return CoreMessage(
        id=row_id,
        session_id=SESSION,
        task_id=task,
        author_type=author,
        content=content,
        requests_input=False,
        created_at=f"2026-01-01T00:00:{second:02d}Z",
        updated_at=f"2026-01-01T00:00:{second:02d}Z",
    )


def turn(row_id: str, second: int, completed: bool = False, task: str = "task") -> CoreTurn:
    """A turn; rows of one second are ordered by id."""
    at = f"2026-01-01T00:00:{second:02d}Z"
    return CoreTurn(
        id=row_id,
        session_id=SESSION,
        task_id=task,
        started_at=at,
        completed_at=at if completed else None,
        created_at=at,
        updated_at=at,
    )


@dataclass(frozen=True)
class Commit:
    """One interval: what each row was before it and is after it."""

    epoch: str
    base: int
    revision: int
    changes: tuple[tuple[Name, Body | None, Body | None], ...]


@dataclass
class Source:
    """Rows, and every state that they had at a commit of the epoch."""

    epoch: str = "epoch-0"
    revision: int = 0
    rows: Snapshot = field(default_factory=dict)
    history: dict[tuple[str, int], Snapshot] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.history[self.epoch, self.revision] = dict(self.rows)

    def commit(self, changes: Iterable[tuple[Name, Body | None]], statements: int = 1) -> Commit:
        """Applies the changes in one transaction, which advances the revision by its number of statements."""
        base, before = self.revision, dict(self.rows)
        names = []
        for name, body in changes:
            names.append(name)
            if body is None:
                self.rows.pop(name, None)
            else:
                self.rows[name] = body
        self.revision += statements
        self.history[self.epoch, self.revision] = dict(self.rows)
        changed = tuple((name, before.get(name), self.rows.get(name)) for name in dict.fromkeys(names))
        return Commit(self.epoch, base, self.revision, changed)

    def mint(self, epoch: str, revision: int, rows: Snapshot) -> None:
        """Starts another history."""
        self.epoch, self.revision, self.rows = epoch, revision, dict(rows)
        self.history[epoch, revision] = dict(rows)

    def boundaries(self, least: int) -> list[int]:
        """Revisions of this epoch at which a snapshot can be read."""
        return sorted(revision for epoch, revision in self.history if epoch == self.epoch and revision >= least)


def projected(commit: Commit, scope_filter: Filter) -> dict[Name, dict[str, Any]]:
    """The operations of a commit that concern a scope, by row."""
    operations: dict[Name, dict[str, Any]] = {}
    for (entity, row_id), before, after in commit.changes:
        if after is not None and scope_filter.admits(after):
            body = after.model_dump(mode="json", exclude_none=True)
            operations[entity, row_id] = {"kind": "upsert", "entity": entity, "id": row_id, entity: body}
        elif before is not None and scope_filter.admits(before):
            operations[entity, row_id] = {"kind": "remove", "entity": entity, "id": row_id}
    return operations


@dataclass
class Subscription:
    """A scope at the gateway. `held`: commits that will go out as one frame."""

    scope: Scope
    sent: int
    held: list[Commit] = field(default_factory=list)


@dataclass
class Asked:
    """A page read on its way. `least`: revision that the gateway knew when it was asked for."""

    effect: ReadMessages | ReadTurns
    epoch: str
    least: int


@dataclass
class World:
    """One scope, its driver, the network and the gateway. Each method is one event in one of them."""

    scope_filter: Filter = field(default_factory=Filter)
    page_rows: int = 3
    source: Source = field(default_factory=Source)
    now: float = 0.0
    chance: float = 0.5
    state: State = field(init=False)
    unpublished: list[Commit] = field(default_factory=list)
    remembered: list[Commit] = field(default_factory=list)
    subscription: Subscription | None = None
    subscribing: bool = False
    resume: Position | None = None
    downstream: list[Event] = field(default_factory=list)
    reads: list[Asked] = field(default_factory=list)
    connected: bool = False
    effects: list[Effect] = field(default_factory=list)
    loads: list[int | None] = field(default_factory=list)
    observe: Callable[[State, State], None] = lambda before, after: None

    def __post_init__(self) -> None:
        self.state = State(Scope(SESSION, "scope", self.scope_filter))

    # The client and its driver

    def feed(self, event: Event) -> tuple[Effect, ...]:
        """Gives an event to the client and carries out what it asks for."""
        before = self.state
        self.state, effects = step(self.state, event, Moment(self.now, self.chance))
        self.observe(before, self.state)
        for effect in effects:
            if isinstance(effect, Resubscribe):
                self.subscribing, self.resume = True, effect.resume
            elif isinstance(effect, ReadMessages | ReadTurns):
                self.reads.append(Asked(effect, self.source.epoch, self.known()))
            elif isinstance(effect, LoadEnded):
                self.loads.append(effect.added)
        self.effects.extend(effects)
        return effects

    def connect(self) -> None:
        if not self.connected:
            self.connected = True
            self.feed(Connected())

    def disconnect(self) -> None:
        if self.connected:
            self.connected, self.subscribing, self.subscription = False, False, None
            self.downstream.clear()
            self.feed(Disconnected())

    def deliver(self, count: int = 1_000) -> None:
        """Lets the next messages of the socket arrive."""
        for _ in range(min(count, len(self.downstream))):
            self.feed(self.downstream.pop(0))

    # The source

    def commit(self, *changes: tuple[Name, Body | None], statements: int = 1) -> Commit:
        commit = self.source.commit(changes, statements)
        self.unpublished.append(commit)
        return commit

    def put(self, *bodies: Body, statements: int = 1) -> Commit:
        return self.commit(*(((row_of(body).entity, body.id), body) for body in bodies), statements=statements)

    # The gateway

    def known(self) -> int:
        """The least revision that the gateway would put into a read."""
        return 0 if self.subscription is None else self.subscription.sent

    def open_scope(self, resume: bool = True, join: bool = True) -> None:
        """Answers the subscribe request: what comes after it continues the revision it names (G1). `resume`: where the
        client stopped, if that was asked for and all that it missed is remembered (G6); `join`: in one frame.
        """
        if not self.subscribing:
            return
        self.subscribing = False
        missed = self.missed(self.resume) if resume and self.resume is not None else None
        start = self.source.revision if missed is None or self.resume is None else self.resume.revision
        self.subscription = Subscription(self.state.scope, start)
        self.downstream.append(Subscribed(self.source.epoch, start, resumed=missed is not None))
        for commit in missed or ():
            self.subscription.held.append(commit)
            if not join:
                self.flush()
        self.flush()

    def missed(self, position: Position) -> list[Commit] | None:
        """The commits that lead from a position to the source's revision, if this gateway has heard of them all."""
        found, reached = [], position.revision
        for commit in self.remembered:
            if commit.epoch == self.source.epoch and commit.base == reached:
                found.append(commit)
                reached = commit.revision
        return found if (position.epoch, reached) == (self.source.epoch, self.source.revision) else None

    def publish(self, count: int = 1_000, join: bool = False) -> None:
        """Takes commits from the stream; `join`: keeps them back, to leave with the next ones as one frame."""
        for _ in range(min(count, len(self.unpublished))):
            commit = self.unpublished.pop(0)
            self.remembered.append(commit)
            known = self.subscription
            if known is not None and commit.epoch == self.source.epoch and commit.base >= known.sent:
                if known.held and known.held[-1].revision != commit.base:
                    self.flush()  # a hole: what is behind it is never joined with what is before it (G5)
                known.held.append(commit)
                if not join:
                    self.flush()

    def flush(self) -> None:
        """Sends what is held as one frame."""
        known = self.subscription
        if known is None or not known.held:
            return
        operations: dict[Name, dict[str, Any]] = {}
        for commit in known.held:
            operations.update(projected(commit, known.scope.filter))
        base, revision = known.held[0].base, known.held[-1].revision
        known.held, known.sent = [], revision
        self.send(str(base), str(revision), operations=list(operations.values()))

    def send(self, base: str, revision: str, **fields: Any) -> None:
        """Puts a frame of the scope on the wire."""
        payload = {
            "protocol_version": 2,
            "scope_id": "scope",
            "session_id": SESSION,
            "epoch": self.source.epoch,
            "base_revision": base,
            "revision": revision,
            "operations": [],
            **fields,
        }
        self.downstream.append(FrameReceived(payload, 200))

    def check(self) -> None:
        """The periodic check: the current revision, after what was held."""
        if self.subscription is not None:
            self.flush()
            revision = max(self.source.revision, self.subscription.sent)
            self.send(str(revision), str(revision), check=True)

    def reset(self) -> None:
        if self.subscription is not None:
            self.subscription.held, self.subscription.sent = [], self.source.revision
            self.send("", "", reset=True)

    def mint(self, epoch: str, revision: int, rows: Snapshot) -> None:
        """Another epoch; the gateway adopts it and says so."""
        self.source.mint(epoch, revision, rows)
        self.unpublished.clear()
        self.reset()

    # Pages

    def answer(self, index: int = 0, revision: int | None = None) -> None:
        """Answers a read from the snapshot at `revision`, the current one by default."""
        asked = self.reads.pop(index)
        at = self.source.revision if revision is None else revision
        snapshot = self.source.history[self.source.epoch, at]
        self.feed(self.page(asked.effect, at, snapshot))

    def answer_all(self) -> None:
        while self.reads:
            self.answer()

    def fail(self, status: int, index: int = 0, retry_after: float = 0.0) -> None:
        self.feed(PageFailed(self.reads.pop(index).effect.read, status, retry_after))

    def page(
        self, effect: ReadMessages | ReadTurns, at: int, snapshot: Snapshot
    ) -> MessagesRead | TurnsRead | PageFailed:
        """The page of a snapshot that a read asks for; refused when its cursor's row is not there."""
        match effect:
            case ReadMessages(read, before):
                key = self.cursor_key(snapshot, "message", before)
                if before is not None and key is None:
                    return PageFailed(read, 400)
                messages = [
                    body
                    for body in snapshot.values()
                    if isinstance(body, CoreMessage)
                    and self.scope_filter.admits(body)
                    and (key is None or row_of(body).key < key)
                ]
                messages.sort(key=lambda body: row_of(body).key, reverse=True)
                shown, more = messages[: self.page_rows], len(messages) > self.page_rows
                return MessagesRead(read, self.source.epoch, at, tuple(shown), more)
            case ReadTurns(read, after):
                key = self.cursor_key(snapshot, "turn", after)
                if after is not None and key is None:
                    return PageFailed(read, 400)
                turns = [
                    body
                    for body in snapshot.values()
                    if isinstance(body, CoreTurn)
                    and self.scope_filter.admits(body)
                    and (key is None or row_of(body).key > key)
                ]
                turns.sort(key=lambda body: row_of(body).key)
                return TurnsRead(
                    read, self.source.epoch, at, tuple(turns[: self.page_rows]), len(turns) > self.page_rows
                )

    @staticmethod
    def cursor_key(snapshot: Snapshot, entity: Entity, row_id: str | None) -> Key | None:
        body = snapshot.get((entity, row_id)) if row_id is not None else None
        return None if body is None else row_of(body).key

    # Whole stories

    def go_live(self) -> "World":
        """Connects and answers everything at once."""
        self.connect()
        self.open_scope()
        self.deliver()
        self.answer_all()
        return self

    def settle(self, rounds: int = 40) -> None:
        """No more faults and no more commits: lets every part do what it does, for a bounded time."""
        for _ in range(rounds):
            self.connect()
            self.open_scope()
            self.publish()
            self.check()
            self.deliver()
            self.answer_all()
            if self.state.live and self.state.applied == self.source.revision and not self.downstream:
                return
            self.now += 0.5
            self.feed_tick()

    def feed_tick(self) -> None:
        self.feed(Tick())

    def expected(self, epoch: str, revision: int, low: Key | None) -> dict[Name, Body]:
        """filter(source) at a revision, within the range whose boundary is `low`."""
        return {
            name: body
            for name, body in self.source.history[epoch, revision].items()
            if self.scope_filter.admits(body) and (name[0] == "turn" or low is None or row_of(body).key >= low)
        }

    def low(self) -> Key | None:
        """Where the loaded range of messages ends."""
        return None if self.state.held is None else self.state.held.messages.low

    def has_more(self) -> bool:
        return self.state.held is not None and self.state.held.has_more

    def shown(self) -> dict[Name, Body]:
        """What the client shows."""
        rows = () if self.state.held is None else self.state.held.rows()
        return {(row.entity, row.id): row.body for row in rows}
