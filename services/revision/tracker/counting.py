"""Counts what the leader decoded and published. A new leader counts the seconds that it publishes again, too."""

from collections.abc import Sequence
from typing import Final

from services.revision.metrics import COMMITS, EPOCHS, PUBLISHED_SECONDS
from services.revision.tracker.drafts import Transaction

_FROM_1970_TO_2000: Final = 946_684_800.0
_WHOLE, _DOUBTFUL, _BROKEN = (COMMITS.labels(outcome) for outcome in ("whole", "doubtful", "broken"))


def count_commits(transactions: Sequence[Transaction]) -> None:
    """What was decoded."""
    for transaction in transactions:
        if transaction.minted:
            EPOCHS.inc()
        if transaction.broken is not None:
            _BROKEN.inc()
        elif transaction.doubtful:
            _DOUBTFUL.inc()
        else:
            _WHOLE.inc()


def time_published(transactions: Sequence[Transaction], now: float) -> None:
    """The receipts of these are in Redis at `now`, in seconds since 1970."""
    for transaction in transactions:
        PUBLISHED_SECONDS.observe(max(0.0, now - _FROM_1970_TO_2000 - transaction.committed_at / 1_000_000))
