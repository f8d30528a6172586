"""What the leader counts."""

from dataclasses import replace

import pytest

from services.revision.metrics import METRICS
from services.revision.tracker.counting import count_commits, time_published
from services.revision.tracker.drafts import HistoryBroken, SessionChange, Transaction
from services.revision.tracker.publisher import Everywhere, Publisher
from services.revision.tracker.receipts import encode
from tests.support.counting import counting
from tests.unit.tracker.test_parts import Streams, entry

COMMITS, RECEIPTS = "kandev_revision_commits_total", "kandev_revision_receipts_total"
WHOLE = Transaction(1, 1, 1_000_000, "e", minted=False, drafts=(), broken=None, size=0)
IN_2000 = 946_684_800


@pytest.mark.parametrize(
    ("transaction", "outcome"),
    [
        (WHOLE, "whole"),
        (replace(WHOLE, doubtful=True), "doubtful"),
        (replace(WHOLE, broken=HistoryBroken(rows=1)), "broken"),
        (replace(WHOLE, broken=HistoryBroken(rows=1), doubtful=True), "broken"),
    ],
)
def test_a_commit_counts_once_by_the_worst_of_it(transaction: Transaction, outcome: str) -> None:
    with counting(METRICS) as counted:
        count_commits([transaction])
    assert {each: counted[COMMITS, each] for each in ("whole", "doubtful", "broken")} == {
        **dict.fromkeys(("whole", "doubtful", "broken"), 0),
        outcome: 1,
    }


def test_epochs_are_counted() -> None:
    with counting(METRICS) as counted:
        count_commits([WHOLE, replace(WHOLE, minted=True)])
    assert counted["kandev_revision_epochs_total"] == 1


@pytest.mark.parametrize(("later", "seconds"), [(1.0, 0.0), (1.5, 0.5), (0.0, 0.0)])
def test_a_commit_is_timed_from_its_place_in_the_log(later: float, seconds: float) -> None:
    with counting(METRICS) as counted:
        time_published([WHOLE], IN_2000 + later)
    assert counted["kandev_revision_publish_seconds_count"] == 1
    assert counted["kandev_revision_publish_seconds_sum"] == pytest.approx(seconds)


async def test_receipts_are_counted_by_what_became_of_them() -> None:
    streams = Streams()
    publisher = Publisher(streams)
    await publisher.begin(1, "e")
    with counting(METRICS) as counted:
        await publisher.publish([entry(b"1"), Everywhere("epoch", b"f")])
        streams.away = True
        await publisher.publish([entry(b"2")])
        await publisher.publish([entry(b"3"), entry(b"4")])
    assert (counted[RECEIPTS, "published"], counted[RECEIPTS, "dropped"]) == (2, 3)


def test_incomplete_receipts_are_counted() -> None:
    draft = SessionChange("s", 1, 2, None)
    with counting(METRICS) as counted:
        encode(replace(WHOLE, drafts=(draft, draft)))
    assert counted["kandev_revision_incomplete_receipts_total"] == 2
