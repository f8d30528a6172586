"""The scopes of one session, and how a change reaches them."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence

from services.gateway.scopes import frames
from services.gateway.scopes.joining import Pace, above, join
from services.gateway.scopes.projection import Projection, View, project
from services.gateway.scopes.pushes import PushView, push
from services.gateway.scopes.scope import Phase, Scope
from shared.contracts.receipts import ChangeReceipt


class _Window:
    """Changes of one view that wait to be joined."""

    def __init__(self, flush: Callable[[], None]) -> None:
        self._flush = flush
        self.pace = Pace()
        self.waiting: list[Projection] = []
        self._timer: asyncio.TimerHandle | None = None

    def flush_at(self, due: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_at(due, self._flush)

    def take(self) -> list[Projection]:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        taken, self.waiting = self.waiting, []
        return taken


class SessionScopes:
    """The open scopes of one session. Times are the event loop's."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self._scopes: dict[View, dict[Scope, None]] = {}
        """In the order in which they opened: what is told to all is found in memory in about that order, too."""
        self._windows: dict[View, _Window] = {}

    def __iter__(self) -> Iterator[Scope]:
        return iter([scope for scopes in self._scopes.values() for scope in scopes])

    def __bool__(self) -> bool:
        return bool(self._scopes)

    def add(self, scope: Scope) -> None:
        """Registers a scope; from now on it holds or is told every receipt."""
        self._scopes.setdefault(scope.view, {})[scope] = None

    def discard(self, scope: Scope) -> None:
        """Forgets a scope."""
        scopes = self._scopes.get(scope.view)
        if scopes is None:
            return
        scopes.pop(scope, None)
        if not scopes:
            del self._scopes[scope.view]
            if (window := self._windows.pop(scope.view, None)) is not None:
                window.take()

    def change(self, receipt: ChangeReceipt, now: float) -> None:
        """Tells every scope what the receipt means for it, now or joined with what follows."""
        is_live, is_opening = Phase.LIVE, Phase.OPENING
        for view, scopes in self._scopes.items():
            live, fresh = 0, []
            for scope in scopes:
                if scope.phase is is_live:
                    live += 1
                    if scope.is_fresh(now):
                        fresh.append(scope)
                elif scope.phase is is_opening:
                    scope.hold(receipt)
            if live and isinstance(view, PushView):
                push(scopes, receipt)
            elif live:
                change = project(receipt, view)
                _send(fresh, [change], self.session_id)
                if len(fresh) < live:
                    self._at_its_pace(view, change, now)

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
        for window in self._windows.values():
            window.take()

    def flush(self) -> None:
        """Sends everything that waits."""
        for view in list(self._windows):
            self._flush(view)

    def _at_its_pace(self, view: View, change: Projection, now: float) -> None:
        """Tells a view's scopes now or later, those that are fresh and know it already excepted."""
        window = self._windows.get(view)
        if window is None:
            window = self._windows[view] = _Window(lambda: self._flush(view))
        if window.waiting and change.revision <= window.waiting[-1].revision:
            return  # a second leader's copy: joined with what follows, it would begin below what the scope has
        window.waiting.append(change)
        due = window.pace.due(now)
        if due <= now:
            self._flush(view)
        else:
            window.flush_at(due)

    def _flush(self, view: View) -> None:
        window = self._windows[view]
        changes = window.take()
        if changes:
            window.pace.left(asyncio.get_running_loop().time())
            _send(self._scopes.get(view, ()), changes, self.session_id)


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
