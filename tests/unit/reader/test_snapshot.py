"""G2 and the guards of a read, decided on a snapshot's head."""

import pytest

from services.reader.snapshot import standing_of
from shared.contracts.errors import RequestFailed
from shared.contracts.identity import Identity
from shared.contracts.reads import Bound, MessagesPage

PAGE = MessagesPage(identity=Identity(user="me"), session_id="s")


def head(*, present: bool = True, revision: int = 5) -> dict[str, object]:
    return {
        "epoch": "e",
        "on_primary": True,
        "session_id": "s" if present else None,
        "session_task": "task" if present else None,
        "revision": revision if present else 0,
    }


@pytest.mark.parametrize(
    ("least", "present", "behind"),
    [
        (None, True, False),
        (None, False, False),
        (Bound(epoch="e", revision=5), True, False),
        (Bound(epoch="e", revision=6), True, True),
        (Bound(epoch="other", revision=6), True, False),
        (Bound(epoch="e", revision=6), False, False),
        (Bound(epoch="e", revision=0), False, False),
        (Bound(epoch="other", revision=6), False, False),
    ],
)
def test_least(least: Bound | None, present: bool, behind: bool) -> None:
    standing = standing_of(head(present=present), PAGE.model_copy(update={"least": least}))
    assert (standing.missing, standing.behind) == (not present, behind)


def test_no_head_is_no_epoch() -> None:
    with pytest.raises(RequestFailed) as refused:
        standing_of(None, PAGE)
    assert refused.value.failure.code == "unavailable"
