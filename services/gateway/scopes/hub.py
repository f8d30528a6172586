"""Every scope of this gateway process: opening, telling, resetting and ending them."""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from services.gateway.metrics import RESETS
from services.gateway.scopes import frames
from services.gateway.scopes.deliveries import Deliveries
from services.gateway.scopes.memory import Memory
from services.gateway.scopes.resuming import Earlier, Missed, Position, Resuming
from services.gateway.scopes.scope import Consumer, Phase, Scope, readers_of
from services.gateway.scopes.session import SessionScopes
from services.gateway.source.positions import KnownPositions
from services.gateway.source.requests import Source
from shared.broker.receipts import ReceiptEntry
from shared.contracts.errors import RequestFailed
from shared.contracts.receipts import RECEIPT, ChangeReceipt, RemovedReceipt

logger = logging.getLogger(__name__)

EPOCH_SPREAD_SECONDS = 3.0
"""After an epoch change every scope must read again; their resets are spread over this long."""

VISIBILITY_SECONDS = 0.02
"""Pause before looking again for a commit that was announced and is not visible yet: usually a few milliseconds."""

ARRIVAL_SECONDS = 1.0
"""How long receipts may be behind a revision that was read before a scope that would go on from them reads after all.
Mostly they are there within a few milliseconds.
"""

RECALL_SECONDS = 3.0
"""How long a look for earlier receipts may take before a scope that would go on from them reads after all."""

RETRY_SECONDS = 0.5
"""Pause before a read that a scope depends on is made again."""

_OPENED = frozenset({Phase.LIVE, Phase.AWAITING_RESET})


class Hub:
    """Owns the scopes and the epoch they live in."""

    def __init__(
        self,
        source: Source,
        positions: KnownPositions,
        memory: Memory,
        earlier: Earlier,
        spread: Callable[[], float] = random.random,
    ) -> None:
        self._source = source
        self._positions = positions
        self._memory = memory
        self._resuming = Resuming(memory, earlier)
        self._spread = spread
        self._sessions: dict[str, SessionScopes] = {}
        self._recalls: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._inquiry: asyncio.Task[None] | None = None
        self._suspicious = False
        self._learning = asyncio.Lock()
        self.deliveries = Deliveries()
        self.epoch: str | None = None
        """The epoch of the primary, as last read from there (R4); `None` until it was read once."""

    @property
    def sessions(self) -> Sequence[str]:
        """The sessions that are followed."""
        return list(self._sessions)

    def scopes(self) -> Iterator[Scope]:
        """Every scope, whatever its session. Not to be used across a change of the scopes."""
        return (scope for session in self._sessions.values() for scope in session)

    def scopes_of(self, session_id: str) -> list[Scope]:
        """The scopes that follow a session."""
        return list(self._sessions.get(session_id, ()))

    def follows(self, session_id: str) -> bool:
        """Whether anyone here follows the session, or did until a moment ago; entries of others are passed over
        unparsed.
        """
        return session_id in self._sessions or session_id in self.deliveries or session_id in self._memory

    async def open(self, scope: Scope, reply: Callable[[Position, bool], None], held: Position | None = None) -> None:
        """Opens a scope (G1): registers it, reads its revision, replies, and only then tells it what is above.

        `held`: where its client stopped. If what it missed since is remembered, it goes on from there (G6). `reply`
        sends the subscription's success with the position from which the scope is told everything, and whether that is
        the one that was held; or it raises to refuse the scope after all. Raises RequestFailed when the session cannot
        be read; in both cases the scope is closed. A scope that was closed meanwhile is not replied to.
        """
        self._sessions.setdefault(scope.session_id, SessionScopes(scope.session_id)).add(scope)
        try:
            current, missed = await self._standing(scope, held)
            if scope.phase is not Phase.OPENING:
                return
            start = current if held is None or missed is None else held
            reply(start, missed is not None)
        except BaseException:
            self.close(scope)
            raise
        if scope.phase is Phase.OPENING:
            self._memory.joined(scope.session_id)
            self._go_live(scope, start, missed or ())

    def close(self, scope: Scope) -> None:
        """Closes a scope without a word, but for a removal that waited for it to open."""
        scope.close()
        session = self._sessions.get(scope.session_id)
        if session is not None:
            session.discard(scope)
            if scope.has_opened and not session.has_opened:
                self._memory.left(scope.session_id, asyncio.get_running_loop().time())
            if not session:
                del self._sessions[scope.session_id]
                self._stop_recall(scope.session_id)
                if scope.session_id not in self._memory:
                    self._memory.forget(scope.session_id)
        if scope.owes_removal:
            scope.owes_removal = False
            self._announce_removal(scope.consumer, scope.session_id)

    def receive(self, entry: ReceiptEntry) -> None:
        """Takes a receipt of a session that is followed, or was until a moment ago."""
        try:
            receipt = RECEIPT.validate_json(entry.payload)
        except ValidationError:
            logger.exception("receipt of %d bytes cannot be read; its scopes will see a gap", len(entry.payload))
            return
        if not isinstance(receipt, ChangeReceipt | RemovedReceipt):
            return
        if receipt.epoch != self.epoch:
            self.suspect()
            return
        session = self._sessions.get(receipt.session_id)
        if isinstance(receipt, ChangeReceipt):
            now = asyncio.get_running_loop().time()
            self._positions.note(receipt.session_id, receipt.epoch, receipt.revision)
            if session is not None or receipt.session_id in self._memory:
                self._memory.add(receipt, entry.payload, now)
            if session is not None:
                session.change(receipt, now)
                if not receipt.complete:
                    RESETS.labels("incomplete").inc(sum(scope.phase is Phase.LIVE for scope in session))
            if receipt.session_id in self.deliveries:
                self.flush(receipt.session_id)
                self.deliveries.note(receipt.session_id, receipt.base_revision, receipt.revision)
        elif session is not None:
            self._removed(session, receipt)

    def reset(self, scopes: Iterable[Scope]) -> None:
        """Tells scopes to read again, once their present revision is known."""
        for scope in scopes:
            if scope.phase in {Phase.LIVE, Phase.AWAITING_RESET}:
                scope.phase = Phase.OPENING
                self._sessions[scope.session_id].add(scope)
                self._spawn(self._reopen(scope))

    def end(self, scopes: Iterable[Scope]) -> None:
        """Ends scopes whose session is gone.

        A connection is told that the session is gone with the last of its scopes there, hence once however they end. A
        scope that is still opening decides: the session may have been made again, and it may be that one's.
        """
        consumers: dict[int, tuple[Consumer, str]] = {}
        for scope in scopes:
            if scope.phase is not Phase.CLOSED:
                consumers[id(scope.consumer)] = (scope.consumer, scope.session_id)
                self._end(scope)
        for consumer, session_id in consumers.values():
            self._announce_removal(consumer, session_id)

    def revoke(self, scopes: Iterable[Scope]) -> None:
        """Ends scopes that their consumer may no longer have, with a terminal frame each and no word about the session:
        it may well be there.

        One that is yet to open is left alone: whoever opens it is asked again before the reply.
        """
        for scope in list(scopes):
            if scope.has_opened and scope.phase is not Phase.CLOSED:
                self._end(scope)

    def _end(self, scope: Scope) -> None:
        scope.end()
        self.close(scope)
        scope.consumer.forget(scope)

    def reset_awaiting(self, scopes: Iterable[Scope]) -> None:
        """Resets those of these scopes that await it: their consumer has room again, or their time has come."""
        self.reset(scope for scope in scopes if scope.phase is Phase.AWAITING_RESET)

    def flush(self, session_id: str) -> None:
        """Sends what waits to be joined."""
        if (session := self._sessions.get(session_id)) is not None:
            session.flush()

    def forget(self, session_id: str) -> None:
        """A session's history broke, or it is gone: what is known of it is worth nothing."""
        self._positions.forget(session_id)
        self._memory.forget(session_id)

    def suspect(self) -> None:
        """Something was seen of another epoch: asks the primary, one question at a time, and again for what was seen
        since the last one was asked.
        """
        self._suspicious = True
        if self._inquiry is None or self._inquiry.done():
            self._inquiry = self._spawn(self._inquire())

    async def learn_epoch(self) -> None:
        """Reads the epoch from the primary, and adopts it (R4). Raises RequestFailed.

        One read at a time: two in flight could answer in the other order, and the older would undo the newer.
        """
        async with self._learning:
            answer = await self._source.check(())
            self._adopt(answer.epoch)

    def _adopt(self, epoch: str) -> None:
        """Enters an epoch. Every live scope is due a reset, at a time of its own."""
        if epoch == self.epoch:
            return
        first, self.epoch = self.epoch is None, epoch
        self._positions.enter(epoch)
        self._memory.enter(epoch)
        if first:
            return
        if self._sessions:
            logger.warning("the epoch changed; sessions to be read again: %d", len(self._sessions))
        loop = asyncio.get_running_loop()
        for session in list(self._sessions.values()):
            session.drop_waiting()
            for scope in session:
                if scope.phase is Phase.LIVE:
                    RESETS.labels("epoch").inc()
                    scope.await_reset()
                    loop.call_later(self._spread() * EPOCH_SPREAD_SECONDS, self.reset_awaiting, [scope])

    async def stop(self) -> None:
        """Ends the tasks that scopes wait for."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _inquire(self) -> None:
        while self._suspicious:
            self._suspicious = False
            try:
                await self.learn_epoch()
            except RequestFailed as failed:
                logger.warning("the primary did not tell its epoch: %s", failed.failure.code)
            # A receipt can run ahead of its commit's visibility, and a lagging one repeats an epoch long gone: do not
            # ask without a pause.
            await asyncio.sleep(RETRY_SECONDS)

    async def _standing(self, scope: Scope, held: Position | None) -> tuple[Position, Missed | None]:
        """Where a scope's session stands, and what leads there from the rows that its client holds; `None`: nothing.

        Its receipts may be from before it was followed here: they are looked for, once. What was read may be ahead of
        its receipts: they are waited for. Whatever may have happened meanwhile to the epoch, or to who may read the
        session, has it looked at again.
        """
        loop = asyncio.get_running_loop()
        until, recalled = loop.time() + ARRIVAL_SECONDS, False
        while True:
            current = await self._position(scope)
            if held is None or held.epoch != current.epoch:
                return current, None
            waited = False
            if (
                not recalled
                and held.revision < current.revision
                and self._memory.begins_after(scope.session_id, held.revision)
            ):
                recalled = waited = True
                await self._recall(scope.session_id)
                until = loop.time() + ARRIVAL_SECONDS
            while (
                scope.phase is Phase.OPENING
                and self._memory.lacks(scope.session_id, held.revision, current.revision)
                and loop.time() < until
            ):
                waited = True
                await asyncio.sleep(VISIBILITY_SECONDS)
            if scope.phase is not Phase.OPENING:
                return current, None
            if not waited or (self.epoch == current.epoch and not scope.access_changed):
                return current, self._resuming.missed(scope, held, current)

    async def _recall(self, session_id: str) -> None:
        """Looks for what was told of a session before it was followed here. All who ask meanwhile share the look, begun
        or not: the session is followed since the first of them came, so that what a look does not show arrives.
        """
        recall = self._recalls.get(session_id)
        if recall is None:
            recall = self._recalls[session_id] = self._spawn(self._resuming.recall(session_id))
            recall.add_done_callback(lambda ended: self._recalled(session_id, ended))
        await asyncio.wait([recall], timeout=RECALL_SECONDS)

    def _stop_recall(self, session_id: str) -> None:
        """Nobody is left who asked: what was found would be remembered of a session that nobody follows, and whoever
        comes next could not tell what it lacks.
        """
        if (recall := self._recalls.pop(session_id, None)) is not None:
            recall.cancel()

    def _recalled(self, session_id: str, recall: asyncio.Task[None]) -> None:
        if self._recalls.get(session_id) is recall:
            del self._recalls[session_id]

    async def _position(self, scope: Scope) -> Position:
        """Epoch and revision of a scope's session, both of the epoch this gateway is in.

        After an answer of another epoch the primary is asked: a replica may stay in the earlier one for long. So it is
        when access has changed meanwhile: the scope was registered, but no check that has begun speaks about it. A read
        that began before this epoch was entered is made again: receipts of the epoch that came in between were dropped.
        """
        authoritative = False
        while True:
            scope.access_changed, epoch = False, self.epoch
            try:
                answer = await self._source.revision(scope.identity, scope.session_id, authoritative=authoritative)
            except RequestFailed as failed:
                if failed.failure.code == "behind":
                    await self._doubt(scope.session_id)
                raise
            if answer.epoch != self.epoch:
                await self.learn_epoch()
                authoritative = True
                continue
            if epoch != self.epoch:
                continue
            if scope.access_changed:
                authoritative = True
                continue
            if scope.session_id not in answer.revisions:
                raise RequestFailed("not_found", "session not found")
            revision, scope.task_id = answer.revisions[scope.session_id], answer.tasks[scope.session_id]
            self._positions.note(scope.session_id, answer.epoch, revision)
            return Position(answer.epoch, revision)

    async def _doubt(self, session_id: str) -> None:
        """No reader reached what is known of the session. If the primary has less, history broke, and what is known is
        worth nothing (G4).
        """
        known = self._positions.least(session_id)
        answer = await self._source.check((session_id,))
        if known is not None and answer.revisions.get(session_id, -1) < known.revision:
            self.forget(session_id)

    def _go_live(self, scope: Scope, start: Position, missed: Missed = ()) -> None:
        held = scope.open_at(start.epoch, start.revision, asyncio.get_running_loop().time())
        session = self._sessions[scope.session_id]
        for change, frame in missed:
            scope.tell(change, frame)
        for receipt in held:
            if isinstance(receipt, RemovedReceipt):
                self._confirm([scope], receipt)
            else:
                session.tell(scope, receipt)

    async def _reopen(self, scope: Scope) -> None:
        """Reads a scope's revision again and sends its reset; ends it when its session is gone, or not to be read."""
        while scope.phase is Phase.OPENING:
            try:
                current = await self._position(scope)
            except RequestFailed as failed:
                if failed.failure.code != "not_found":
                    scope.let_go_of_held_changes()
                elif await self._end_missing(scope):
                    continue
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if scope.phase is Phase.OPENING:
                scope.epoch = current.epoch
                scope.tell_reset()
                if scope.phase is Phase.OPENING:
                    self._go_live(scope, current)

    async def _end_missing(self, scope: Scope) -> bool:
        """Ends a scope whose user was not shown its session: it is gone, or theirs no longer. `False` when neither can
        be said, as where a revision is known of it: it may be that of a commit that is not visible yet, of a session
        that was made again. What is known is forgotten then, and the next look decides.
        """
        try:
            answer = await self._source.check((scope.session_id,), readers_of([scope]))
        except RequestFailed:
            return False
        if scope.session_id not in answer.revisions:
            if self._positions.least(scope.session_id) is not None:
                self.forget(scope.session_id)
                return False
            self.end([scope])
        else:
            self.revoke([scope] if scope.session_id in answer.refused else ())
        return scope.phase is Phase.CLOSED

    def _removed(self, session: SessionScopes, receipt: RemovedReceipt) -> None:
        session.flush()
        for scope in session:
            if scope.phase is Phase.OPENING:
                scope.hold(receipt)
        self._confirm(session, receipt)

    def _confirm(self, scopes: Iterable[Scope], receipt: RemovedReceipt) -> None:
        """A removal concerns scopes of its epoch that were told less than its revision (G3). One that is being opened
        reads for itself whether the session is there.
        """
        concerned = {
            scope: scope.opened_at
            for scope in scopes
            if scope.phase in _OPENED and scope.epoch == receipt.epoch and receipt.revision > scope.sent
        }
        if concerned:
            self.forget(receipt.session_id)
            self._spawn(self._confirm_gone(receipt, concerned))

    async def _confirm_gone(self, receipt: RemovedReceipt, concerned: Mapping[Scope, float]) -> None:
        """A read from the primary, begun after the removal, decides: gone ends the scopes, there again resets them.

        A session made again starts at the removal's revision or above (R1); below it, the removal is not visible yet.
        """
        while _still(concerned):
            try:
                answer = await self._source.check((receipt.session_id,))
            except RequestFailed:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            revision = answer.revisions.get(receipt.session_id)
            if revision is None:
                self.end(_still(concerned))
            elif revision >= receipt.revision or answer.epoch != receipt.epoch:
                RESETS.labels("recreated").inc(len(_still(concerned)))
                self.reset(_still(concerned))
            else:
                await asyncio.sleep(VISIBILITY_SECONDS)
                continue
            return

    def _announce_removal(self, consumer: Consumer, session_id: str) -> None:
        left = [scope for scope in self.scopes_of(session_id) if scope.consumer is consumer]
        if not left:
            consumer.deliver(frames.session_removed(session_id))
        elif not any(scope.has_opened for scope in left):
            left[0].owes_removal = True

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a scope's background work failed", exc_info=error)


def _still(concerned: Mapping[Scope, float]) -> list[Scope]:
    """Those that are still the subscriptions that they were: one that was opened anew has read the session since."""
    return [scope for scope, opened_at in concerned.items() if scope.phase in _OPENED and scope.opened_at == opened_at]
