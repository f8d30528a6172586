"""The driver of one scope: gives events to the pure consumer and carries out what it asks for."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, assert_never
from uuid import uuid4

from pydantic import ValidationError

from client.connection import Connection
from client.consumer import step
from client.events import (
    Close,
    CloseReason,
    Connected,
    Disconnected,
    Effect,
    Event,
    FrameReceived,
    IdentityRefused,
    LoadEnded,
    LoadMore,
    MessagesRead,
    PageFailed,
    Position,
    ReadMessages,
    ReadTurns,
    Resubscribe,
    RowsChanged,
    SessionRemoved,
    Subscribed,
    SubscribeRefused,
    Tick,
    TurnsRead,
)
from client.http_pages import PAGE_ROWS, PageRefused, messages_page, turns_page
from client.range import Filter, Row, RowChange
from client.repair import Moment
from client.state import Counters, Live, Scope, State, deadline
from shared.contracts import wire

EXPLAINED_SECONDS = 2.0
"""Longest wait for the reason why a scope has ended: what tells it follows at once, if anything does."""

LOAD_AGAIN_AFTER = 0.25
"""Least seconds until an older page that was given up is asked for again."""

Observer = Callable[[State, tuple[RowChange, ...]], None]
"""Called after each step with the new state and what changed of the rows. It must not raise, and not wait."""


class ScopeClosed(Exception):
    """The scope follows no longer, so that what was waited for cannot come."""

    def __init__(self, session_id: str, reason: CloseReason) -> None:
        super().__init__(f"session {session_id} is not followed any more: {reason.value}")
        self.reason = reason


class Follower:
    """Follows one session: `async with Follower(connection, session_id) as follower`.

    `scope_filter`: which rows. `limit`: rows of a page. `everything`: loads older pages by itself until none is left.
    """

    def __init__(
        self,
        connection: Connection,
        session_id: str,
        *,
        scope_filter: Filter | None = None,
        limit: int = PAGE_ROWS,
        everything: bool = False,
        observer: Observer | None = None,
    ) -> None:
        scope = Scope(session_id, f"follower:{uuid4()}", scope_filter or Filter())
        self.state = State(scope)
        self.longest_behind = 0.0
        self._connection = connection
        self._limit = limit
        self._everything = everything
        self._observer = observer
        self._events: deque[Event] = deque()
        self._stepping = False
        self._timer: asyncio.TimerHandle | None = None
        self._load_timer: asyncio.TimerHandle | None = None
        self._behind_since: float | None = None
        self._reads: set[asyncio.Task[None]] = set()
        self._waiting: list[tuple[Callable[[State], bool], asyncio.Future[State]]] = []
        self._loads: list[asyncio.Future[int | None]] = []
        self._load_again_after = LOAD_AGAIN_AFTER
        self._explained = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._connection.add(self.state.scope.scope_id, self.state.scope.session_id, self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        scope = self.state.scope
        self._connection.drop(scope.scope_id)
        if self.state.closed is None and self._connection.open:
            payload = {"scope_id": scope.scope_id, "session_id": scope.session_id}
            self._connection.ask(wire.UNSUBSCRIBE, payload, lambda _: None)
        for timer in (self._timer, self._load_timer):
            if timer is not None:
                timer.cancel()
        for read in self._reads:
            read.cancel()
        await asyncio.gather(*self._reads, return_exceptions=True)

    @property
    def counters(self) -> Counters:
        """What happened so far."""
        return self.state.counters

    def rows(self) -> tuple[Row, ...]:
        """The rows that are shown: messages, then turns, each oldest first."""
        return () if self.state.held is None else self.state.held.rows()

    async def wait_until(self, predicate: Callable[[State], bool]) -> State:
        """The first state from now on that satisfies the predicate. Raises `ScopeClosed` when none can come."""
        if predicate(self.state):
            return self.state
        if self.state.closed is not None:
            raise ScopeClosed(self.state.scope.session_id, self.state.closed)
        future: asyncio.Future[State] = asyncio.get_running_loop().create_future()
        self._waiting.append((predicate, future))
        return await future

    async def load_more(self) -> int:
        """Loads the page below the range and returns how many rows it brought; 0 when nothing is left. Raises
        `ScopeClosed`.
        """
        while True:
            state = await self.wait_until(lambda state: state.live)
            if state.held is None or not state.held.has_more:
                return 0
            future: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
            self._loads.append(future)
            self._feed(LoadMore())
            added = await future
            if added is not None:
                return added
            await asyncio.sleep(self._load_again_after)

    async def why_closed(self) -> CloseReason | None:
        """The reason why the scope is closed, and for one that has ended what may still be told of it. None: it is not
        closed.
        """
        if self.state.closed is CloseReason.ENDED:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._explained.wait(), EXPLAINED_SECONDS)
        return self.state.closed

    # What the connection tells (client.connection.Listener)

    def connected(self) -> None:
        """Requests can be sent."""
        self._feed(Connected())

    def disconnected(self) -> None:
        """The socket is lost."""
        self._feed(Disconnected())

    def changed(self, payload: dict[str, Any], size: int) -> None:
        """A frame of this scope."""
        self._feed(FrameReceived(payload, size))

    def removed(self) -> None:
        """The session was removed."""
        self._feed(SessionRemoved())

    def refused(self) -> None:
        """The gateway wants an identity that it accepts."""
        self._feed(IdentityRefused())

    # Steps

    def _feed(self, event: Event) -> None:
        """Takes events one after another, also when carrying out an effect brings the next one at once."""
        self._events.append(event)
        if self._stepping:
            return
        self._stepping = True
        try:
            while self._events:
                self._step(self._events.popleft())
        finally:
            self._stepping = False

    def _step(self, event: Event) -> None:
        now = asyncio.get_running_loop().time()
        before = self.state
        self.state, effects = step(before, event, Moment(now, self._connection.chance()))
        for effect in effects:
            self._carry_out(effect)
        self._measure(now)
        self._set_timer()
        if self._observer is not None and (self.state is not before or effects):
            changes = tuple(
                change for effect in effects if isinstance(effect, RowsChanged) for change in effect.changes
            )
            self._observer(self.state, changes)
        self._wake()
        if self._everything and self._load_timer is None and _may_load(self.state):
            self._events.append(LoadMore())

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Resubscribe(position):
                self._subscribe(position)
            case ReadMessages():
                self._read(self._read_messages(effect))
            case ReadTurns():
                self._read(self._read_turns(effect))
            case RowsChanged():
                pass
            case LoadEnded(added, again_after):
                self._load_ended(added, again_after)
            case Close(reason):
                if reason is not CloseReason.ENDED:
                    self._connection.drop(self.state.scope.scope_id)
                    self._explained.set()
                self._load_ended(None)
            case _:
                assert_never(effect)

    def _subscribe(self, position: Position | None) -> None:
        scope = self.state.scope
        request = wire.Subscribe(
            session_id=scope.session_id,
            scope_id=scope.scope_id,
            consumer_kind="core",
            task_id=scope.filter.task_id,
            authors=scope.filter.authors,
            resume=None if position is None else wire.Resume(epoch=position.epoch, revision=str(position.revision)),
        )
        self._connection.ask(wire.SUBSCRIBE, request.model_dump(mode="json", exclude_none=True), self._subscribed)

    def _subscribed(self, payload: dict[str, Any] | None) -> None:
        self._feed(read_reply(payload, self.state.scope))

    def _read(self, reading: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(reading, name="read")
        self._reads.add(task)
        task.add_done_callback(self._reads.discard)

    async def _read_messages(self, effect: ReadMessages) -> None:
        scope = self.state.scope
        try:
            page = await messages_page(self._connection, scope.session_id, scope.filter, self._limit, effect.before)
        except PageRefused as refused:
            self._feed(PageFailed(effect.read, refused.status, refused.retry_after))
        else:
            self._feed(MessagesRead(effect.read, page.epoch, int(page.revision), page.messages, page.has_more))

    async def _read_turns(self, effect: ReadTurns) -> None:
        scope = self.state.scope
        try:
            page = await turns_page(self._connection, scope.session_id, scope.filter, after=effect.after)
        except PageRefused as refused:
            self._feed(PageFailed(effect.read, refused.status, refused.retry_after))
        else:
            self._feed(TurnsRead(effect.read, page.epoch, int(page.revision), page.turns, page.has_more))

    def _load_ended(self, added: int | None, again_after: float = 0.0) -> None:
        self._load_again_after = max(LOAD_AGAIN_AFTER, again_after)
        loads, self._loads = self._loads, []
        for future in loads:
            if not future.done():
                future.set_result(added)
        if added is None and self._everything and self.state.closed is None and self._load_timer is None:
            self._load_timer = asyncio.get_running_loop().call_later(self._load_again_after, self._load_again)

    def _load_again(self) -> None:
        self._load_timer = None
        self._feed(LoadMore())

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        due = deadline(self.state)
        self._timer = None if due is None else asyncio.get_running_loop().call_at(due, self._feed, Tick())

    def _measure(self, now: float) -> None:
        """Times how long the rows have been known to be behind, from the first ones that were shown."""
        if self.state.held is None or self.state.closed is not None:
            return
        behind = not isinstance(self.state.phase, Live) or self.state.phase.expected is not None
        if self._behind_since is not None:
            self.longest_behind = max(self.longest_behind, now - self._behind_since)
            self._behind_since = self._behind_since if behind else None
        elif behind:
            self._behind_since = now

    def _wake(self) -> None:
        for waiting in tuple(self._waiting):
            predicate, future = waiting
            if future.done():
                self._waiting.remove(waiting)
            elif predicate(self.state):
                self._waiting.remove(waiting)
                future.set_result(self.state)
            elif self.state.closed is not None:
                self._waiting.remove(waiting)
                future.set_exception(ScopeClosed(self.state.scope.session_id, self.state.closed))


def _may_load(state: State) -> bool:
    return isinstance(state.phase, Live) and state.phase.load is None and state.held is not None and state.held.has_more


def read_reply(payload: dict[str, Any] | None, scope: Scope) -> Subscribed | SubscribeRefused:
    """What a reply to a subscribe request says. One that is missing, malformed or of another scope is a failure to
    retry.
    """
    failed = SubscribeRefused("upstream_failure", retryable=True)
    if payload is None:
        return failed
    try:
        if payload.get("success") is not True:
            refused = wire.SubscribeRefused.model_validate(payload)
            return SubscribeRefused(refused.error.code, refused.error.retryable)
        opened = wire.Subscribed.model_validate(payload)
    except ValidationError:
        return failed
    if (opened.scope_id, opened.session_id) != (scope.scope_id, scope.session_id) or not opened.epoch:
        return failed
    return Subscribed(opened.epoch, int(opened.revision), opened.resumed is True)
