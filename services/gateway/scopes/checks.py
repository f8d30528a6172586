"""Revision checks: what bounds the time for which any loss can go unnoticed (G4)."""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from services.gateway.scopes.hub import Hub
from services.gateway.scopes.scope import Phase, Scope
from services.gateway.source.positions import KnownPositions
from services.gateway.source.requests import Source
from shared.contracts.control import AccessChanged
from shared.contracts.errors import RequestFailed
from shared.contracts.streams import partition_of

logger = logging.getLogger(__name__)

PERIOD_SECONDS = 5.0
"""Every followed session is checked this often."""

GRACE_SECONDS = 1.0
"""How long a revision that was found may be ahead of its receipt before clients are told of it."""

BATCH = 500
"""Most sessions checked in one query."""

SETTLE_SECONDS = 0.3
"""A primary that shows less than was sent is asked once more after this: a receipt can run ahead of its commit's
visibility, for as long as a synchronous standby takes."""


@dataclass(frozen=True, slots=True)
class _Opened:
    """A scope as it stood when a check's read began; a result concerns no other (G3)."""

    scope: Scope
    opened_at: float
    sent: int

    @property
    def stands(self) -> bool:
        """Whether it is still the subscription that it was then."""
        return self.scope.phase is Phase.LIVE and self.scope.opened_at == self.opened_at


class Checks:
    """Checks the followed sessions: all evenly over the period, and those of a partition at once after a loss."""

    def __init__(self, hub: Hub, source: Source, positions: KnownPositions, partitions: int) -> None:
        self._hub = hub
        self._source = source
        self._positions = positions
        self._partitions = partitions
        self._lost: set[int] = set()
        self._named: set[str] = set()
        self._urgent = asyncio.Event()

    def after_loss(self, partitions: Iterable[int]) -> None:
        """Receipts of these partitions may have been lost: their sessions are checked at once."""
        self._lost.update(partitions)
        self._urgent.set()

    def at_once(self, sessions: Iterable[str]) -> None:
        """Something happened to these sessions that no receipt may tell: they are checked at once."""
        self._named.update(sessions)
        self._urgent.set()

    async def access_changed(self, change: AccessChanged) -> None:
        """Another gateway, or this one, deleted a session or changed who may read it."""
        if self._hub.follows(change.session_id):
            self.at_once([change.session_id])

    async def run(self) -> None:
        """Checks until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._run_periodic())
            group.create_task(self._run_urgent())

    async def _run_periodic(self) -> None:
        while True:
            batches = list(_batches(self._hub.sessions))
            pause = PERIOD_SECONDS / max(1, len(batches))
            for sessions in batches or [()]:
                started = asyncio.get_running_loop().time()
                await self._check(sessions, GRACE_SECONDS)
                await asyncio.sleep(max(0.0, started + pause - asyncio.get_running_loop().time()))

    async def _run_urgent(self) -> None:
        while True:
            await self._urgent.wait()
            self._urgent.clear()
            (lost, self._lost), (named, self._named) = (self._lost, set()), (self._named, set())
            concerned = [
                name
                for name in self._hub.sessions
                if name in named or (lost and partition_of(name, self._partitions) in lost)
            ]
            for sessions in _batches(concerned):
                if not await self._check(sessions, 0.0):
                    self.after_loss(lost)
                    self.at_once(named)
                    await asyncio.sleep(SETTLE_SECONDS)
                    break

    async def _check(self, sessions: Sequence[str], grace: float) -> bool:
        """Checks some sessions; `False` when the source did not answer."""
        if not sessions:
            return True
        opened = {name: _opened(self._hub.scopes_of(name)) for name in sessions}
        try:
            answer = await self._source.check(tuple(sessions))
        except RequestFailed as failed:
            logger.warning("a check of %d sessions failed: %s", len(sessions), failed.failure.code)
            return False
        if answer.epoch != self._hub.epoch:
            self._hub.suspect()
            return True
        lower = []
        for name, scopes in opened.items():
            revision = answer.revisions.get(name)
            if revision is None:
                self._positions.forget(name)
                self._hub.end([each.scope for each in scopes if each.stands])
            elif any(revision < each.sent for each in scopes):
                lower.append(name)
            else:
                self._positions.note(name, answer.epoch, revision)
                self._tell(name, scopes, revision, grace)
        if lower:
            await self._settle(lower)
        return True

    def _tell(self, name: str, opened: Sequence[_Opened], revision: int, grace: float) -> None:
        """Tells scopes the revision: at once when they have it, otherwise after giving its receipt time to come."""
        if grace == 0.0:
            self._hub.flush(name)
        for each in opened:
            if not each.stands:
                continue
            if revision <= each.scope.sent or grace == 0.0:
                each.scope.tell_check(revision)
            else:
                asyncio.get_running_loop().call_later(grace, _tell_if_standing, each, revision)

    async def _settle(self, names: Sequence[str]) -> None:
        """Sessions at which the primary shows less than was sent: if it still does, history broke, and their scopes
        read again.
        """
        await asyncio.sleep(SETTLE_SECONDS)
        opened = {name: _opened(self._hub.scopes_of(name)) for name in names}
        try:
            answer = await self._source.check(tuple(names))
        except RequestFailed:
            return
        for name, scopes in opened.items():
            revision = answer.revisions.get(name)
            if revision is None or answer.epoch != self._hub.epoch:
                continue
            broken = [each for each in scopes if revision < each.sent and each.stands]
            if broken:
                logger.error(
                    "revision %s of a session is below %d that was sent: history broke", revision, broken[0].sent
                )
                self._positions.forget(name)
                self._hub.reset(each.scope for each in broken)
            else:
                self._tell(name, scopes, revision, GRACE_SECONDS)


def _batches(sessions: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(sessions), BATCH):
        yield sessions[start : start + BATCH]


def _opened(scopes: Iterable[Scope]) -> list[_Opened]:
    return [_Opened(scope, scope.opened_at, scope.sent) for scope in scopes if scope.phase is Phase.LIVE]


def _tell_if_standing(opened: _Opened, revision: int) -> None:
    if opened.stands:
        opened.scope.tell_check(revision)
