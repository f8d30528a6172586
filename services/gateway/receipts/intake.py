"""Takes receipts from the streams to the scopes, and losses to the checks."""

from collections.abc import Sequence

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
            self._checks.after_loss(batch.partitions)
            return
        for entry in batch:
            if self._follows_a_loss(entry):
                self._checks.after_loss([entry.partition])
            if entry.kind in {"epoch", "resync"}:
                self._hub.suspect()
            elif self._hub.follows(entry.session_id):
                self._hub.receive(entry)

    def _follows_a_loss(self, entry: ReceiptEntry) -> bool:
        sequence = self._sequences[entry.partition]
        if entry.kind == "resync":
            sequence.restart(entry.term, entry.sequence)
            return True
        return sequence.observe(entry.term, entry.sequence) is Arrival.AFTER_LOSS
