"""Takes receipts from the streams to the scopes, and losses to the checks."""

import time
from collections.abc import Sequence

from services.gateway.metrics import DELIVERY_SECONDS, GAPS, LAG, RECEIPTS
from services.gateway.receipts.terms import Arrival
from services.gateway.receipts.terms import Sequence as PartitionSequence
from services.gateway.scopes.checks import Checks
from services.gateway.scopes.hub import Hub
from shared.broker.receipts import Interruption, ReceiptEntry


class Intake:
    """What the receipt reader calls with every batch. Entries of sessions that nobody here follows stay unparsed."""

    def __init__(self, hub: Hub, checks: Checks, partitions: int) -> None:
        self._hub = hub
        self._checks = checks
        self._sequences = [PartitionSequence() for _ in range(partitions)]

    def receive(self, batch: Sequence[ReceiptEntry] | Interruption) -> None:
        """Takes one batch, or the news that the connection was lost in between."""
        if isinstance(batch, Interruption):
            GAPS.labels("connection").inc(len(batch.partitions))
            self._checks.after_loss(batch.partitions)
            return
        followed = 0
        for entry in batch:
            if self._follows_a_loss(entry):
                told = self._checks.after_handover if entry.kind == "resync" else self._checks.after_loss
                told([entry.partition])
            if entry.kind in {"epoch", "resync"}:
                self._hub.suspect()
            elif self._hub.follows(entry.session_id):
                self._hub.receive(entry)
                followed += 1
                DELIVERY_SECONDS.observe(_age(entry))
        RECEIPTS.labels("followed").inc(followed)
        RECEIPTS.labels("passed_over").inc(len(batch) - followed)
        LAG.set(_age(max(batch, key=_written)))

    def _follows_a_loss(self, entry: ReceiptEntry) -> bool:
        sequence = self._sequences[entry.partition]
        if entry.kind == "resync":
            GAPS.labels("term").inc()
            sequence.restart(entry.term, entry.sequence)
            return True
        lost = sequence.observe(entry.term, entry.sequence) is Arrival.AFTER_LOSS
        if lost:
            GAPS.labels("sequence").inc()
        return lost


def _written(entry: ReceiptEntry) -> int:
    return entry.written_ms


def _age(entry: ReceiptEntry) -> float:
    """Seconds since Redis took it; none where that machine's clock is ahead."""
    return max(0.0, time.time() - entry.written_ms / 1000)
