"""The receipts that a gateway remembers, so that a client that was away for a moment need not read again (G6; pure).

Nothing here is relied on. What is remembered of a session is a run of intervals without a hole, and it is handed out
only where it leads from the one revision to the other; whatever was lost, dropped or never seen ends in a refusal.
"""

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from shared.contracts.receipts import ChangeReceipt

SESSION_BYTES = 2 << 20
"""Most that is remembered of one session. Reading a page is cheaper than reading more receipts than that again, and a
busy session leaves room for others.
"""

LINGER_SECONDS = 60.0
"""A session that nobody follows any more is followed on for this long: its clients are away just then."""

MAX_LINGERING = 10_000
"""Most sessions that are followed on. Those that were left first go first."""

RECEIPT_OVERHEAD, RUN_OVERHEAD = 128, 1024
"""Bytes that a receipt and a run of receipts cost beside the payloads, rounded up, so that the limit is one of memory
and not of payloads.
"""


@dataclass(slots=True)
class _Run:
    """Receipts without a hole, in order, each with the revision at which it ends. The first begins at `base`.

    `ended`: what came next is no part of it. `recalled`: what was told before it was looked for already.
    """

    base: int
    revision: int
    ended: bool = False
    recalled: bool = False
    receipts: deque[tuple[int, bytes]] = field(default_factory=deque)
    size: int = RUN_OVERHEAD


class Memory:
    """The latest receipts of the sessions that are followed, or were until lately, as the bytes that came.

    `limit`: most bytes of all sessions together; the session that was silent for longest is forgotten first. 0: nothing
    is remembered. Times are of any steady clock.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._epoch = ""
        self._runs: OrderedDict[str, _Run] = OrderedDict()
        self._lingering: OrderedDict[str, float] = OrderedDict()
        self.size = 0
        """Bytes in use."""

    def __contains__(self, session_id: str) -> bool:
        """Whether a session that nobody follows any more is followed on."""
        return session_id in self._lingering

    def enter(self, epoch: str) -> None:
        """Begins another epoch: nothing leads there from an earlier one."""
        if epoch != self._epoch:
            self._epoch = epoch
            self._runs.clear()
            self.size = 0

    def joined(self, session_id: str) -> None:
        """Somebody follows the session (again): whose scope is yet to open does not, and may never."""
        self._lingering.pop(session_id, None)

    def left(self, session_id: str, now: float) -> None:
        """Nobody follows the session any more."""
        self._expire(now)
        if self._limit:
            self._lingering[session_id] = now + LINGER_SECONDS
            if len(self._lingering) > MAX_LINGERING:
                self.forget(self._lingering.popitem(last=False)[0])

    def forget(self, session_id: str) -> None:
        """What is known of the session leads nowhere: its history broke, or it is gone."""
        if (run := self._runs.pop(session_id, None)) is not None:
            self.size -= run.size

    def add(self, receipt: ChangeReceipt, payload: bytes, now: float) -> None:
        """Remembers a receipt; `payload` is its JSON. The run begins anew after a hole, as an incomplete one leaves."""
        if receipt.epoch != self._epoch or not self._limit:
            return
        if self._lingering:
            self._expire(now)
        session_id, base, revision = receipt.session_id, receipt.base_revision, receipt.revision
        run = self._runs.get(session_id)
        if run is not None and revision <= run.revision:
            return  # another leader's copy
        if not receipt.complete:
            if run is not None:
                run.ended = True
            return
        if run is not None and run.revision == base:
            self._runs.move_to_end(session_id)
        else:
            self.forget(session_id)
            run = self._runs[session_id] = _Run(base, base)
            self.size += run.size
        self._append(run, revision, payload)

    def between(self, session_id: str, revision: int, reached: int) -> Sequence[bytes] | None:
        """The receipts that lead from one revision of this epoch to another that is not below it, in order; `None`
        where that is not known: both must be boundaries of one run. None are needed where both are the same.
        """
        if revision == reached:
            return ()
        run = self._runs.get(session_id)
        if run is None or not run.base <= revision < reached <= run.revision:
            return None
        found: list[bytes] = []
        for end, payload in reversed(run.receipts):
            if end <= revision:
                break
            if found or end == reached:
                found.append(payload)
        else:
            end = run.base
        return found[::-1] if found and end == revision else None

    def begins_after(self, session_id: str, revision: int) -> bool:
        """Whether receipts from before the session was followed here could lead there from this revision."""
        run = self._runs.get(session_id)
        return self._limit > 0 and (run is None or (run.base > revision and not run.recalled))

    def recall(self, session_id: str, receipts: Sequence[tuple[ChangeReceipt, bytes]], now: float) -> None:
        """Puts earlier receipts, with their JSON, before what is remembered of their session; whatever does not lead
        there without a hole is left out. Where any were found, what is older is nowhere, or more than is remembered of
        one session: it need not be looked for again.
        """
        run = self._runs.get(session_id)
        known = {
            receipt.revision: (receipt, payload)
            for receipt, payload in receipts
            if receipt.complete
            and receipt.epoch == self._epoch
            and receipt.base_revision < receipt.revision
            and (run is None or receipt.revision <= run.base)
        }
        end = max(known, default=0) if run is None else run.base
        chain: list[tuple[ChangeReceipt, bytes]] = []
        while (before := known.get(chain[-1][0].base_revision if chain else end)) is not None:
            chain.append(before)
        if not chain:
            if run is not None and receipts:
                run.recalled = True
            return
        later, ended = ((), False) if run is None else (tuple(run.receipts), run.ended)
        self.forget(session_id)
        for receipt, payload in reversed(chain):
            self.add(receipt, payload, now)
        whole = self._runs.get(session_id)
        for revision, payload in later:
            if whole is None or self._runs.get(session_id) is not whole:
                return
            self._append(whole, revision, payload)
        if whole is not None:
            whole.ended, whole.recalled = ended, True

    def lacks(self, session_id: str, revision: int, reached: int) -> bool:
        """Whether receipts that are still to come may lead from the one revision to the other."""
        run = self._runs.get(session_id)
        return run is not None and not run.ended and run.base <= revision <= run.revision < reached

    def _append(self, run: _Run, revision: int, payload: bytes) -> None:
        size = len(payload) + RECEIPT_OVERHEAD
        run.receipts.append((revision, payload))
        run.revision, run.ended = revision, False
        run.size += size
        self.size += size
        if run.size > SESSION_BYTES or self.size > self._limit:
            self._shrink(run)

    def _shrink(self, run: _Run) -> None:
        """Brings a run, and then all of them together, below their limits."""
        while run.size > SESSION_BYTES:
            run.base, payload = run.receipts.popleft()
            run.size -= len(payload) + RECEIPT_OVERHEAD
            self.size -= len(payload) + RECEIPT_OVERHEAD
        while self.size > self._limit:
            session_id, oldest = self._runs.popitem(last=False)
            self.size -= oldest.size
            self._lingering.pop(session_id, None)

    def _expire(self, now: float) -> None:
        while self._lingering:
            session_id, due = next(iter(self._lingering.items()))
            if now < due:
                return
            del self._lingering[session_id]
            self.forget(session_id)
