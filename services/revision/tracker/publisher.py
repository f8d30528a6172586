"""What the leader writes to the receipt streams, term by term (T2)."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from services.revision.metrics import RECEIPTS
from shared.broker.connection import BROKER_ERRORS
from shared.broker.receipts import Outgoing

PIPELINE_ENTRIES: Final = 512
PIPELINE_BYTES: Final = 4 << 20
"""Most of one round trip (4 MiB): other clients of Redis wait no longer than a few milliseconds for it."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Everywhere:
    """An entry that concerns no single session and goes to every partition."""

    kind: str
    payload: bytes


Entry: TypeAlias = Outgoing | Everywhere


class Writer(Protocol):
    """The receipt streams' writer (`shared.broker.receipts.ReceiptWriter`)."""

    async def begin_term(self, term: int, epoch: str) -> None:
        """Writes the resync of a term to every partition."""

    async def publish(self, entries: Sequence[Outgoing]) -> None:
        """Writes entries in order, in one round trip."""

    async def publish_everywhere(self, kind: str, payload: bytes) -> None:
        """Writes one entry to every partition."""

    async def trim(self) -> None:
        """Drops entries past their age."""


class Publisher:
    """Writes within a term, and closes it at the first error: what could not be written is dropped, the next term's
    resync says so.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._term: int | None = None
        self._failing = False
        self.dropped = 0

    @property
    def term(self) -> int | None:
        """The open term, `None` when the next entry needs a new one."""
        return self._term

    @property
    def failing(self) -> bool:
        """Whether Redis refused the last attempt to write."""
        return self._failing

    async def begin(self, term: int, epoch: str) -> bool:
        """Opens a term with a resync in every partition; whether Redis took it."""
        try:
            await self._writer.begin_term(term, epoch)
        except BROKER_ERRORS as error:
            self._fail(error)
            return False
        if self._failing:
            _log.info("Redis answers again, %d receipts were dropped meanwhile", self.dropped)
        self._failing, self._term, self.dropped = False, term, 0
        return True

    def close(self) -> None:
        """Ends the term without a word: this process leads no more."""
        self._term = None

    async def publish(self, entries: Iterable[Entry]) -> None:
        """Writes entries in order. What an error or a closed term keeps from being written is counted in `dropped`."""
        for batch in _batches(entries):
            if self._term is None:
                self._drop(batch)
                continue
            try:
                await self._write(batch)
            except BROKER_ERRORS as error:
                self._fail(error)
                self._drop(batch)
            else:
                RECEIPTS.labels("published").inc(len(batch))

    async def trim(self) -> None:
        """Drops entries past their age, whether or not anything is written."""
        if self._term is not None:
            try:
                await self._writer.trim()
            except BROKER_ERRORS as error:
                self._fail(error)

    def _drop(self, batch: Sequence[Entry]) -> None:
        self.dropped += len(batch)
        RECEIPTS.labels("dropped").inc(len(batch))

    def _fail(self, error: Exception) -> None:
        if not self._failing:
            _log.warning("receipts cannot be published: %s; trying again until Redis answers", type(error).__name__)
        self._failing, self._term = True, None

    async def _write(self, batch: Sequence[Entry]) -> None:
        first = batch[0]
        if isinstance(first, Everywhere):
            await self._writer.publish_everywhere(first.kind, first.payload)
        else:
            await self._writer.publish([entry for entry in batch if isinstance(entry, Outgoing)])


def _batches(entries: Iterable[Entry]) -> Iterable[list[Entry]]:
    """Entries in order, cut at the pipeline's bounds; one for everywhere stands alone."""
    batch: list[Entry] = []
    size = 0
    for entry in entries:
        alone = isinstance(entry, Everywhere)
        if batch and (alone or len(batch) >= PIPELINE_ENTRIES or size + len(entry.payload) > PIPELINE_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += len(entry.payload)
        if alone:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
