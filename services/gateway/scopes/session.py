"""The scopes of one session, and how a change reaches them."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from services.gateway.metrics import JOINED
from services.gateway.scopes import frames
from services.gateway.scopes.joining import Pace, above, join
from services.gateway.scopes.projection import Projection, View, Viewing, project
from services.gateway.scopes.pushes import PushView, push
from services.gateway.scopes.scope import Consumer, Phase, Scope
from shared.contracts.receipts import ChangeReceipt


class SessionScopes:
    """The open scopes of one session. Times are the event loop's.

    All its views keep one pace: each is told of every interval, be it by coverage. So frames of several scopes on one
    connection are made at the same moment, and go out in one write.
    """

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self._scopes: dict[View, dict[Scope, None]] = {}
        """In the order in which they opened: what is told to all is found in memory in about that order, too."""
        self._young: dict[Scope, None] = {}
        """Among them are all that open or are fresh: nearly always few, so that each change looks at few."""
        self._consumers: Counter[Consumer] = Counter()
        self._gathering: dict[Consumer, None] = {}
        """Those with several scopes here."""
        self._waiting: list[Viewing] = []
        self._pace = Pace()
        self._timer: asyncio.TimerHandle | None = None

    def __iter__(self) -> Iterator[Scope]:
        return iter([scope for scopes in self._scopes.values() for scope in scopes])

    def __bool__(self) -> bool:
        return bool(self._scopes)

    @property
    def has_opened(self) -> bool:
        """Whether any of the scopes has: those that are yet to open may never."""
        return any(scope.has_opened for scopes in self._scopes.values() for scope in scopes)

    def add(self, scope: Scope) -> None:
        """Registers a scope that opens, or opens again; from now on it holds or is told every receipt."""
        self._young[scope] = None
        scopes = self._scopes.setdefault(scope.view, {})
        if scope not in scopes:
            scopes[scope] = None
            self._consumers[scope.consumer] += 1
            if self._consumers[scope.consumer] == 2:
                self._gathering[scope.consumer] = None

    def discard(self, scope: Scope) -> None:
        """Forgets a scope."""
        scopes = self._scopes.get(scope.view, {})
        if scope not in scopes:
            return
        del scopes[scope]
        self._young.pop(scope, None)
        if not scopes:
            del self._scopes[scope.view]
        self._consumers[scope.consumer] -= 1
        if self._consumers[scope.consumer] == 1:
            del self._gathering[scope.consumer]
        elif not self._consumers[scope.consumer]:
            del self._consumers[scope.consumer]
        if not self._scopes:
            self._take()

    def change(self, receipt: ChangeReceipt, now: float) -> None:
        """Tells every scope what the receipt means for it, now or joined with what follows."""
        viewing = Viewing(receipt)
        fresh: dict[View, list[Scope]] = {}
        for scope in list(self._young):
            if scope.phase is Phase.OPENING:
                scope.hold(receipt)
            elif scope.phase is Phase.LIVE and scope.is_fresh(now):
                fresh.setdefault(scope.view, []).append(scope)
            else:
                del self._young[scope]
        with self._gathered():
            for view, scopes in self._scopes.items():
                if isinstance(view, PushView):
                    push(scopes, receipt)
                elif view in fresh:
                    _send(fresh[view], [viewing.through(view)], self.session_id)
            if len(self._young) < sum(map(len, self._scopes.values())):
                self._at_its_pace(viewing, now)

    def tell(self, scope: Scope, receipt: ChangeReceipt) -> None:
        """Tells a scope that has just opened what was held for it."""
        if receipt.epoch != scope.epoch:
            return
        if isinstance(scope.view, PushView):
            push([scope], receipt)
        else:
            change = project(receipt, scope.view)
            scope.tell(change, frames.change(self.session_id, scope.epoch, change))

    def drop_waiting(self) -> None:
        """Drops what waits to be joined: its epoch is over, and its revisions mean nothing in the next."""
        self._take()

    def flush(self) -> None:
        """Sends everything that waits."""
        with self._gathered():
            self._flush(asyncio.get_running_loop().time())

    @contextmanager
    def _gathered(self) -> Iterator[None]:
        """Within, what several scopes of one consumer are told is gathered, to be sent together."""
        gathering = list(self._gathering)
        for consumer in gathering:
            consumer.gather()
        try:
            yield
        finally:
            for consumer in gathering:
                consumer.send_gathered()

    def _at_its_pace(self, viewing: Viewing, now: float) -> None:
        """Tells all scopes now or later, but those that are fresh and know it already."""
        if self._waiting and viewing.receipt.revision <= self._waiting[-1].receipt.revision:
            return  # a second leader's copy: joined with what follows, it would begin below what the scopes have
        self._waiting.append(viewing)
        due = self._pace.due(now)
        if due <= now:
            self._flush(now)
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_at(due, self.flush)

    def _flush(self, now: float) -> None:
        if waiting := self._take():
            self._pace.left(now)
            JOINED.inc(len(waiting) - 1)
            for view, scopes in self._scopes.items():
                if not isinstance(view, PushView):
                    _send(scopes, [viewing.through(view) for viewing in waiting], self.session_id)

    def _take(self) -> list[Viewing]:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        taken, self._waiting = self._waiting, []
        return taken


def _send(scopes: Iterable[Scope], changes: Sequence[Projection], session_id: str) -> None:
    """Sends changes joined; scopes at the same revision share the encoded frames."""
    ready: dict[tuple[str, int], Sequence[tuple[Projection, frames.Frame]]] = {}
    told: Sequence[tuple[Projection, frames.Frame]] = ()
    epoch, sent, live = "", -1, Phase.LIVE  # to look a member of an enumeration up takes longer than all else here
    for scope in scopes:
        if scope.phase is not live:
            continue
        if scope.sent != sent or scope.epoch != epoch:  # nearly all stand where the one before them stood
            epoch, sent = scope.epoch, scope.sent
            if (epoch, sent) not in ready:
                joined = join(above(changes, sent))
                ready[epoch, sent] = [(change, frames.change(session_id, epoch, change)) for change in joined]
            told = ready[epoch, sent]
        for change, frame in told:
            scope.tell(change, frame)
