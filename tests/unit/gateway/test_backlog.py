"""Who gives way when a client does not take what its scopes are told."""

from collections.abc import Iterable

import pytest

from services.gateway.websocket import backlog as backlog_module
from services.gateway.websocket.backlog import Backlog


class Owner:
    """Counts how often its backlog was dropped for others."""

    def __init__(self) -> None:
        self.losses = 0

    def lose_backlog(self) -> None:
        self.losses += 1


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A backlog holds ten frames or a hundred bytes."""
    monkeypatch.setattr(backlog_module, "MAX_FRAMES", 10)
    monkeypatch.setattr(backlog_module, "MAX_BYTES", 100)


def rest(backlog: Backlog) -> list[bytes]:
    """All that waits, taken out."""
    return [backlog.popleft() for _ in range(len(backlog))]


def fill(backlog: Backlog, owner: Owner, texts: Iterable[bytes]) -> None:
    for text in texts:
        assert backlog.admit(text, owner)


def test_frames_keep_their_order_whoever_they_are_of() -> None:
    backlog, one, two = Backlog(), Owner(), Owner()
    fill(backlog, one, [b"a", b"b"])
    backlog.append(b"reply")
    fill(backlog, two, [b"c"])
    fill(backlog, one, [b"d"])
    assert backlog.size == 9
    assert rest(backlog) == [b"a", b"b", b"reply", b"c", b"d"]
    assert (backlog.size, len(backlog)) == (0, 0)


@pytest.mark.parametrize(("frames", "size"), [(9, 1), (4, 20)])
def test_one_that_is_told_much_makes_room_for_one_that_is_told_little(frames: int, size: int) -> None:
    backlog, chatty, quiet = Backlog(), Owner(), Owner()
    fill(backlog, quiet, [b"first"])
    fill(backlog, chatty, [b"x" * size] * frames)
    fill(backlog, quiet, [b"second" * 3])
    assert (chatty.losses, quiet.losses) == (1, 0)
    assert rest(backlog) == [b"first", b"second" * 3]


@pytest.mark.parametrize(("frames", "size"), [(9, 1), (4, 20)])
def test_one_that_is_told_much_pushes_nobody_out(frames: int, size: int) -> None:
    backlog, chatty, quiet = Backlog(), Owner(), Owner()
    fill(backlog, quiet, [b"first"])
    fill(backlog, chatty, [b"x" * size] * frames)
    assert not backlog.admit(b"x" * 20, chatty)
    assert (chatty.losses, quiet.losses) == (0, 0), "it is told by the answer"
    assert rest(backlog) == [b"first"]
    assert backlog.size == 0


def test_only_as_many_give_way_as_have_to() -> None:
    backlog, owners, late = Backlog(), [Owner(), Owner(), Owner()], Owner()
    fill(backlog, owners[0], [b"a" * 40])
    fill(backlog, owners[1], [b"b" * 35])
    fill(backlog, owners[2], [b"c" * 20])
    fill(backlog, late, [b"d" * 30])
    assert [each.losses for each in owners] == [1, 0, 0]
    assert backlog.has_room(7, 15)
    assert not backlog.has_room(7, 16)
    assert not backlog.has_room(8, 15)


def test_a_frame_that_is_more_than_anybody_has_waiting_is_refused() -> None:
    backlog, one, two, large = Backlog(), Owner(), Owner(), Owner()
    fill(backlog, one, [b"a" * 40])
    fill(backlog, two, [b"b" * 40])
    assert not backlog.admit(b"c" * 60, large)
    assert (one.losses, two.losses) == (0, 0)
    assert len(backlog) == 2


def test_what_has_no_owner_never_gives_way() -> None:
    backlog, owner = Backlog(), Owner()
    fill(backlog, owner, [b"x"])
    for _ in range(20):
        backlog.append(b"reply" * 10)
    assert not backlog.admit(b"y", owner)
    assert rest(backlog) == [b"reply" * 10] * 20


def test_what_was_taken_out_counts_no_more() -> None:
    backlog, one, two = Backlog(), Owner(), Owner()
    fill(backlog, one, [b"a" * 30] * 3)
    assert [backlog.popleft(), backlog.popleft()] == [b"a" * 30] * 2
    fill(backlog, two, [b"b" * 35] * 2)
    assert not backlog.admit(b"b" * 10, two)
    assert rest(backlog) == [b"a" * 30]
    fill(backlog, one, [b"a" * 100])
    backlog.clear()
    assert (backlog.size, len(backlog)) == (0, 0)
    fill(backlog, two, [b"b" * 100])
