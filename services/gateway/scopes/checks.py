"""Checks: what bounds the time for which a loss can go unnoticed, and lost access still be used (G4, G10)."""

import asyncio
import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from services.gateway.metrics import CHECKED, CHECKS, FOUND, RESETS
from services.gateway.scopes.hub import Hub
from services.gateway.scopes.scope import Phase, Scope, readers_of
from services.gateway.source.batches import fits
from services.gateway.source.positions import KnownPositions
from services.gateway.source.requests import Source
from shared.contracts.control import AccessChanged, MembershipChanged
from shared.contracts.errors import RequestFailed
from shared.contracts.streams import partition_of

logger = logging.getLogger(__name__)

PERIOD_SECONDS = 5.0
"""Every followed session is checked this often."""

GRACE_SECONDS = 1.0
"""How long a revision that was found may be ahead of its receipt before clients are told of it."""

SETTLE_SECONDS = 0.3
"""A primary that shows less than was sent is asked once more after this: a receipt can run ahead of its commit's
visibility, for as long as a synchronous standby takes."""


@dataclass(frozen=True, slots=True)
class _Opened:
    """A scope as it stood when a check's read began; a result concerns no other (G3)."""

    scope: Scope
    opened_at: float
    sent: int
    live: bool

    @property
    def stands(self) -> bool:
        """Whether it is still the subscription that it was then, and told what the revision is."""
        return self.live and self.scope.phase is Phase.LIVE and self._same

    @property
    def lasts(self) -> bool:
        """Whether it is still the subscription that it was then, told something or awaiting its reset."""
        return self.scope.phase is not Phase.CLOSED and self._same

    @property
    def _same(self) -> bool:
        return self.scope.opened_at == self.opened_at


class Checks:
    """Checks the followed sessions: all evenly over the period, and those of a partition at once after a loss."""

    def __init__(self, hub: Hub, source: Source, positions: KnownPositions, partitions: int) -> None:
        self._hub = hub
        self._source = source
        self._positions = positions
        self._partitions = partitions
        self._lost: set[int] = set()
        self._handed_over: set[int] = set()
        self._named: set[str] = set()
        self._urgent = asyncio.Event()

    def after_loss(self, partitions: Iterable[int]) -> None:
        """Receipts of these partitions may have been lost: their sessions are checked at once."""
        self._lost.update(partitions)
        self._urgent.set()

    def after_handover(self, partitions: Iterable[int]) -> None:
        """Another tracker leads: it repeats the receipts of its last seconds, so what is missing mostly comes. Sessions
        of these partitions are checked at once, and their clients told after the usual grace.
        """
        self._handed_over.update(partitions)
        self._urgent.set()

    def at_once(self, sessions: Iterable[str]) -> None:
        """Something happened to these sessions that no receipt may tell: they are checked at once."""
        self._named.update(sessions)
        self._urgent.set()

    async def access_changed(self, change: AccessChanged) -> None:
        """Another gateway, or this one, deleted a session or changed who may read it."""
        self._look_again(self._hub.scopes_of(change.session_id))

    async def membership_changed(self, change: MembershipChanged) -> None:
        """A workspace was given to, or taken from, some users or everyone: whatever they follow is checked at once."""
        users = frozenset(change.users)
        self._look_again([scope for scope in self._hub.scopes() if not users or scope.reader in users])

    def _look_again(self, scopes: Iterable[Scope]) -> None:
        """Who may read these scopes' sessions may have changed. A scope that is opening reads for itself, and again."""
        for scope in scopes:
            scope.access_changed = True
            self.at_once([scope.session_id])

    async def run(self) -> None:
        """Checks until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._run_periodic())
            group.create_task(self._run_urgent())

    async def _run_periodic(self) -> None:
        while True:
            batches = list(self._batches(self._hub.sessions))
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
            handed_over, self._handed_over = self._handed_over - lost, set()
            if not (await self._check_all(lost, named, 0.0) and await self._check_all(handed_over, (), GRACE_SECONDS)):
                self.after_loss(lost)
                self.after_handover(handed_over)
                self.at_once(named)
                await asyncio.sleep(SETTLE_SECONDS)

    async def _check_all(self, partitions: Collection[int], named: Collection[str], grace: float) -> bool:
        """Checks the sessions of partitions, and those named; `False` when the source did not answer."""
        concerned = [
            name
            for name in self._hub.sessions
            if name in named or (partitions and partition_of(name, self._partitions) in partitions)
        ]
        for sessions in self._batches(concerned):
            if not await self._check(sessions, grace):
                return False
        return True

    async def _check(self, sessions: Sequence[str], grace: float) -> bool:
        """Checks some sessions; `False` when the source did not answer."""
        if not sessions:
            return True
        opened = {name: _opened(self._hub.scopes_of(name)) for name in sessions}
        try:
            readers = readers_of(each.scope for scopes in opened.values() for each in scopes)
            answer = await self._source.check(tuple(sessions), readers)
        except RequestFailed as failed:
            CHECKS.labels("failed").inc()
            logger.warning("a check of %d sessions failed: %s", len(sessions), failed.failure.code)
            return False
        if answer.epoch != self._hub.epoch:
            CHECKS.labels("other_epoch").inc()
            self._hub.suspect()
            return True
        CHECKS.labels("answered").inc()
        CHECKED.inc(len(sessions))
        FOUND.labels("refused").inc(len(answer.refused))
        lower = []
        for name, scopes in opened.items():
            if (refused := answer.refused.get(name)) is not None:
                self._hub.revoke(each.scope for each in scopes if each.lasts and each.scope.reader in refused)
            revision = answer.revisions.get(name)
            if revision is None:
                FOUND.labels("gone").inc()
                self._hub.forget(name)
                self._hub.end([each.scope for each in scopes if each.stands])
            elif any(each.live and revision < each.sent for each in scopes):
                FOUND.labels("below").inc()
                lower.append(name)
            else:
                FOUND.labels("ahead").inc(any(each.stands and each.scope.sent < revision for each in scopes))
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
            broken = [each for each in scopes if each.stands and revision < each.sent]
            if broken:
                logger.error(
                    "revision %s of a session is below %d that was sent: history broke", revision, broken[0].sent
                )
                RESETS.labels("history").inc(len(broken))
                self._hub.forget(name)
                self._hub.reset(each.scope for each in broken)
            else:
                self._tell(name, scopes, revision, GRACE_SECONDS)

    def _batches(self, sessions: Iterable[str]) -> Iterator[Sequence[str]]:
        """The sessions in as few batches as one query each can take."""
        batch: list[str] = []
        pairs = 0
        for name in sessions:
            readers = len({scope.reader for scope in self._hub.scopes_of(name)})
            if batch and not fits(len(batch) + 1, pairs + readers):
                yield batch
                batch, pairs = [], 0
            batch.append(name)
            pairs += readers
        if batch:
            yield batch


def _opened(scopes: Iterable[Scope]) -> list[_Opened]:
    return [
        _Opened(scope, scope.opened_at, scope.sent, scope.phase is Phase.LIVE)
        for scope in scopes
        if scope.has_opened and scope.phase is not Phase.CLOSED
    ]


def _tell_if_standing(opened: _Opened, revision: int) -> None:
    if opened.stands:
        opened.scope.tell_check(revision)
